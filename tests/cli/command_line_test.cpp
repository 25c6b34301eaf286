#include "command_line.hpp"

#include "failure.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace quern::cli {
namespace {

CommandLine parse(const std::vector<std::string>& arguments) {
  return parse_command_line(arguments, "quern 9.9", [](const char*) { return std::optional<std::string>(); });
}

/// The failure's sentence; "" if there is none.
std::string refusal(const std::vector<std::string>& arguments) {
  try {
    parse(arguments);
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), exit_usage);
    return failure.what();
  }
  return "";
}

TEST(CommandLine, ReadsAPromptAndItsSampling) {
  const CommandLine line = parse({"run", "m.gguf", "Why?", "--temperature", "0.5", "--top-k", "40", "--top-p", "0.9",
                                  "--min-p", "0.05", "--repeat-penalty", "1.1", "--presence-penalty", "0.2",
                                  "--frequency-penalty", "0.3", "--penalty-window", "all", "--seed",
                                  "18446744073709551615", "--max-tokens", "7", "--context", "2048", "--logprobs", "3"});
  EXPECT_EQ(line.verb, Verb::run);
  EXPECT_EQ(line.run.model.path, "m.gguf");
  EXPECT_EQ(line.run.prompt, "Why?");
  const SamplingFlags& sampling = line.run.sampling;
  EXPECT_FLOAT_EQ(sampling.temperature, 0.5f);
  EXPECT_EQ(sampling.top_k, 40u);
  EXPECT_FLOAT_EQ(sampling.top_p, 0.9f);
  EXPECT_FLOAT_EQ(sampling.min_p, 0.05f);
  EXPECT_FLOAT_EQ(sampling.repeat_penalty, 1.1f);
  EXPECT_FLOAT_EQ(sampling.presence_penalty, 0.2f);
  EXPECT_FLOAT_EQ(sampling.frequency_penalty, 0.3f);
  EXPECT_EQ(sampling.penalty_window, QUERN_WINDOW_ALL);
  EXPECT_EQ(sampling.seed, UINT64_MAX);
  EXPECT_EQ(line.run.max_tokens, 7u);
  EXPECT_EQ(line.run.context, 2048u);
  EXPECT_EQ(line.run.logprobs, 3u);
}

TEST(CommandLine, LeavesPenaltiesBiasesAndFiltersOffUnlessGiven) {
  const SamplingFlags sampling = parse({"run", "m.gguf", "x"}).run.sampling;
  EXPECT_EQ(sampling.top_k, 0u);
  EXPECT_EQ(sampling.top_p, 0);
  EXPECT_EQ(sampling.min_p, 0);
  EXPECT_EQ(sampling.repeat_penalty, 0);
  EXPECT_EQ(sampling.presence_penalty, 0);
  EXPECT_EQ(sampling.frequency_penalty, 0);
  EXPECT_TRUE(sampling.bias.empty());
  EXPECT_FALSE(sampling.seed.has_value());
}

TEST(CommandLine, TakesOneStopStringForEachFlagAndLeavesThePromptAlone) {
  const CommandLine line = parse({"run", "m.gguf", "--stop", "\n\n", "--stop", "End", "the prompt"});
  EXPECT_EQ(line.run.stop, (std::vector<std::string>{"\n\n", "End"}));
  EXPECT_EQ(line.run.prompt, "the prompt");
}

TEST(CommandLine, KeepsAPromptThatLooksLikeSomethingElse) {
  EXPECT_EQ(parse({"run", "m.gguf", "show"}).run.prompt, "show");
  EXPECT_EQ(parse({"run", "m.gguf", "--json", "--", "--not-a-flag"}).run.prompt, "--not-a-flag");
  EXPECT_EQ(parse({"run", "m.gguf", "[1, 2]"}).run.prompt, "[1, 2]");
  EXPECT_EQ(parse({"run", "m.gguf", "\"quoted\" 'text'"}).run.prompt, "\"quoted\" 'text'");
  EXPECT_EQ(parse({"tokenize", "m.gguf", "a\nb "}).tokenize.text, "a\nb ");
  EXPECT_EQ(parse({"tokenize", "m.gguf", ""}).tokenize.text, "");
}

TEST(CommandLine, AFlagThatTheVerbHasNotIsNamedWithTheNearestOne) {
  EXPECT_EQ(refusal({"run", "m.gguf", "hi", "--temp", "0.5"}), "run: --temp is not a flag of run; did you mean --temperature?; see quern run --help");
  EXPECT_EQ(refusal({"run", "m.gguf", "--temp=0.5", "hi"}), "run: --temp is not a flag of run; did you mean --temperature?; see quern run --help");
  EXPECT_EQ(refusal({"list", "--banana"}), "list: --banana is not a flag of list; see quern list --help");
  EXPECT_EQ(refusal({"--versoin"}), "--versoin is not a flag of quern; did you mean --version?; see quern --help");
  EXPECT_THAT(refusal({"chow", "m.gguf"}), testing::StartsWith("'chow' is not a verb; did you mean show?; the verbs are run, "));
}

TEST(CommandLine, AnUnquotedPromptIsShownQuotedInItsOwnOrder) {
  EXPECT_EQ(refusal({"run", "m.gguf", "hi", "there", "friend"}),
            "run: PROMPT is one argument, and these are 3; quote them: \"hi there friend\"; see quern run --help");
  EXPECT_EQ(refusal({"run", "m.gguf", "--seed", "1", "hi", "hi", "--raw", "you"}),
            "run: PROMPT is one argument, and these are 3; quote them: \"hi hi you\"; see quern run --help");
  EXPECT_EQ(refusal({"list", "a", "b"}), "list: 'a' 'b' is more than list takes; see quern list --help");
}

TEST(CommandLine, ReadsLogitBiases) {
  const auto bias = parse({"run", "m.gguf", "--logit-bias", "7=-1.5", "--logit-bias", "8=-inf", "x"}).run.sampling.bias;
  ASSERT_EQ(bias.size(), 2u);
  EXPECT_EQ(bias[0].token, 7);
  EXPECT_FLOAT_EQ(bias[0].bias, -1.5f);
  EXPECT_TRUE(std::isinf(bias[1].bias));
  EXPECT_LT(bias[1].bias, 0);
  for (const char* wrong : {"", "7", "=1", "7=", "-1=2", "7=abc", "7=nan", "4294967296=1", "7=1x"})
    EXPECT_THROW(parse_logit_bias(wrong), Failure) << wrong;
}

TEST(CommandLine, ReadsEveryVerb) {
  EXPECT_EQ(parse({"tokenize", "m", "x", "--no-bos", "--no-special", "--json"}).verb, Verb::tokenize);
  EXPECT_FALSE(parse({"tokenize", "m", "--messages", "f"}).tokenize.special_in_messages);
  EXPECT_TRUE(parse({"tokenize", "m", "--messages", "f", "--special-in-messages"}).tokenize.special_in_messages);
  EXPECT_TRUE(parse({"run", "m", "x", "--special-in-messages"}).run.special_in_messages);
  EXPECT_EQ(parse({"eval", "m", "f", "--positions", "--logits", "o"}).eval.logits_file, "o");
  EXPECT_EQ(parse({"devices", "--json"}).verb, Verb::devices);
  EXPECT_EQ(parse({"doctor"}).verb, Verb::doctor);
  EXPECT_TRUE(parse({"show", "m", "--tensors"}).show.tensors);
  EXPECT_EQ(parse({"estimate", "m"}).estimate.model.path, "m");
  EXPECT_TRUE(parse({"estimate", "m", "--json"}).json);
}

TEST(CommandLine, ReadsTheShortFlagsOfBench) {
  const CommandLine line = parse({"bench", "m", "-p", "64", "-n", "16", "-r", "3", "-t", "2", "-b", "8", "-d", "100"});
  EXPECT_EQ(line.bench.prompt_tokens, 64u);
  EXPECT_EQ(line.bench.decode_tokens, 16u);
  EXPECT_EQ(line.bench.repetitions, 3u);
  EXPECT_EQ(line.settings.at("threads"), "2");
  EXPECT_EQ(line.bench.batch, 8u);
  EXPECT_EQ(line.bench.depth, 100u);
}

TEST(CommandLine, GivesTheSettingsFlagsToEveryComputingVerb) {
  const std::vector<std::vector<std::string>> verbs = {{"run", "m", "x"}, {"eval", "m", "f"}, {"bench", "m"},
                                                       {"estimate", "m"}, {"devices"},        {"doctor"}};
  for (std::vector<std::string> arguments : verbs) {
    arguments.insert(arguments.end(), {"--backend", "cpu", "--device", "cpu:0", "--threads", "2", "--memory",
                                       "cuda:0=8G", "--memory", "cpu=1G", "--deterministic"});
    const CommandLine line = parse(arguments);
    EXPECT_EQ(line.settings.at("backend"), "cpu");
    EXPECT_EQ(line.settings.at("device"), "cpu:0");
    EXPECT_EQ(line.settings.at("threads"), "2");
    EXPECT_EQ(line.settings.at("memory"), "cuda:0=8G,cpu=1G");
    EXPECT_EQ(line.settings.at("deterministic"), "1");
  }
}

TEST(CommandLine, ReadsNumerics) {
  const CommandLine line = parse({"run", "m", "x", "--activations", "f32", "--kv", "f32"});
  EXPECT_EQ(line.run.model.activations, std::uint32_t{QUERN_ACTIVATIONS_F32});
  EXPECT_EQ(line.run.model.kv, std::uint32_t{QUERN_KV_F32});
  EXPECT_EQ(parse({"eval", "m", "f"}).eval.model.activations, std::uint32_t{QUERN_ACTIVATIONS_AUTO});
  EXPECT_THAT(refusal({"run", "m", "x", "--kv", "q4"}), testing::HasSubstr("--kv"));
}

TEST(CommandLine, VerboseRaisesTheLogUnlessTheLogIsSet) {
  EXPECT_EQ(parse({"doctor", "-v"}).settings.at("log"), "debug");
  EXPECT_EQ(parse({"doctor", "-v", "--log", "trace"}).settings.at("log"), "trace");
  EXPECT_EQ(parse({"-v", "doctor"}).settings.at("log"), "debug");
}

TEST(CommandLine, RefusesWhatItDoesNotUnderstandAndSaysWhereToLook) {
  EXPECT_THAT(refusal({}), testing::HasSubstr("quern --help"));
  EXPECT_THAT(refusal({"walk"}), testing::HasSubstr("walk"));
  EXPECT_THAT(refusal({"run"}), testing::HasSubstr("MODEL"));
  EXPECT_THAT(refusal({"run", "m", "x", "--fast"}), testing::HasSubstr("--fast"));
  EXPECT_THAT(refusal({"run", "m", "x", "--fast"}), testing::HasSubstr("see quern run --help"));
  EXPECT_THAT(refusal({"run", "m", "x", "--top-k", "many"}), testing::HasSubstr("--top-k"));
  EXPECT_THAT(refusal({"run", "m", "x", "--top-k", "-1"}), testing::HasSubstr("--top-k"));
  EXPECT_THAT(refusal({"run", "m", "x", "--temperature", "-1"}), testing::HasSubstr("--temperature"));
  EXPECT_THAT(refusal({"run", "m", "x", "--temperature", "nan"}), testing::HasSubstr("--temperature"));
  EXPECT_THAT(refusal({"run", "m", "x", "--top-p", "1.5"}), testing::HasSubstr("--top-p"));
  EXPECT_THAT(refusal({"run", "m", "x", "--penalty-window", "0"}), testing::HasSubstr("--penalty-window"));
  EXPECT_THAT(refusal({"run", "m", "x", "--seed", "-5"}), testing::HasSubstr("--seed"));
  EXPECT_THAT(refusal({"run", "m", "x", "--stop", ""}), testing::HasSubstr("--stop"));
  EXPECT_THAT(refusal({"run", "m", "x", "y"}), testing::HasSubstr("y"));
  EXPECT_THAT(refusal({"bench", "m", "-r", "0"}), testing::HasSubstr("-r"));
  EXPECT_THAT(refusal({"doctor", "--backend", "cpu", "--backend", "cuda"}), testing::HasSubstr("--backend"));
}

TEST(CommandLine, StandardInputIsReadOnce) {
  EXPECT_EQ(refusal({"run", "m", "-"}), "");
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{{"-", "--file", "-"}, {"x", "--file", "-", "--file", "-"}, {"x", "--file", "-", "--system-file", "-"}}) {
    std::vector<std::string> arguments{"run", "m"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    EXPECT_THAT(refusal(arguments), testing::HasSubstr("standard input can be read once"));
  }
}

TEST(CommandLine, RefusesFlagsThatContradictEachOther) {
  EXPECT_THAT(refusal({"run", "m", "x", "--system", "a", "--system-file", "b"}), testing::HasSubstr("--system-file"));
  EXPECT_THAT(refusal({"run", "m", "--messages", "a", "--file", "b"}), testing::HasSubstr("--file"));
  EXPECT_THAT(refusal({"run", "m", "x", "--raw", "--prefill", "b"}), testing::HasSubstr("--prefill"));
  EXPECT_THAT(refusal({"run", "m", "x", "--raw", "--system-file", "b"}), testing::HasSubstr("--system-file"));
  EXPECT_THAT(refusal({"run", "m", "x", "--messages", "f"}), testing::HasSubstr("not both"));
  EXPECT_THAT(refusal({"run", "m", "--raw", "--messages", "f"}), testing::HasSubstr("--raw"));
  EXPECT_THAT(refusal({"run", "m", "x", "--raw", "--system", "s"}), testing::HasSubstr("--system"));
  EXPECT_THAT(refusal({"run", "m", "--messages", "f", "--system", "s"}), testing::HasSubstr("in the file"));
  EXPECT_THAT(refusal({"tokenize", "m", "x", "--messages", "f"}), testing::HasSubstr("not both"));
  EXPECT_THAT(refusal({"tokenize", "m", "--no-special", "--messages", "f"}), testing::HasSubstr("--no-special"));
  EXPECT_THAT(refusal({"tokenize", "m", "x", "--special-in-messages"}), testing::HasSubstr("needs --messages"));
  EXPECT_THAT(refusal({"run", "m", "x", "--raw", "--special-in-messages"}), testing::HasSubstr("--special-in-messages"));
  EXPECT_THAT(refusal({"estimate", "m", "--hidden", "4096"}), testing::HasSubstr("not both"));
  EXPECT_THAT(refusal({"estimate", "--hidden", "4096"}), testing::HasSubstr("--layers"));
  EXPECT_THAT(refusal({"estimate"}), testing::HasSubstr("MODEL"));
}

TEST(CommandLine, ReadsAShape) {
  const quern_shape shape = parse({"estimate", "--hidden", "4096", "--ffn", "14336", "--layers", "32", "--vocab", "32000",
                                   "--heads", "32", "--kv-heads", "8", "--tied"})
                                .estimate.shape;
  EXPECT_EQ(shape.hidden, 4096u);
  EXPECT_EQ(shape.feed_forward, 14336u);
  EXPECT_EQ(shape.layers, 32u);
  EXPECT_EQ(shape.vocabulary, 32000u);
  EXPECT_EQ(shape.heads, 32u);
  EXPECT_EQ(shape.kv_heads, 8u);
  EXPECT_EQ(shape.tied, 1u);
}

TEST(CommandLine, AnswersHelpAndVersionOnStandardOutput) {
  const auto answered = [](const std::vector<std::string>& arguments) -> std::string {
    try {
      parse(arguments);
    } catch (const Answered& answer) {
      return answer.text;
    }
    return "";
  };
  EXPECT_THAT(answered({"--version"}), testing::HasSubstr("quern 9.9"));
  for (const char* verb : {"run", "tokenize", "eval", "bench", "devices", "doctor", "show", "estimate"})
    EXPECT_THAT(answered({"--help"}), testing::HasSubstr(verb));
  EXPECT_THAT(answered({"run", "--help"}), testing::HasSubstr("--repeat-penalty"));
  EXPECT_THAT(answered({"run", "--help"}), testing::HasSubstr("QUERN_BACKEND"));
}

}  // namespace
}  // namespace quern::cli
