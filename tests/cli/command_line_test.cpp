#include "command_line.hpp"

#include "failure.hpp"
#include "help_page.hpp"
#include "parser.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <iomanip>
#include <map>
#include <set>
#include <sstream>

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
  const CommandLine line = parse({"run",
                                  "m.gguf",
                                  "Why?",
                                  "--temperature",
                                  "0.5",
                                  "--top-k",
                                  "40",
                                  "--top-p",
                                  "0.9",
                                  "--min-p",
                                  "0.05",
                                  "--repeat-penalty",
                                  "1.1",
                                  "--presence-penalty",
                                  "0.2",
                                  "--frequency-penalty",
                                  "0.3",
                                  "--penalty-window",
                                  "all",
                                  "--seed",
                                  "18446744073709551615",
                                  "--max-tokens",
                                  "7",
                                  "--context",
                                  "2048",
                                  "--logprobs",
                                  "3"});
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

TEST(CommandLine, LeavesPenaltiesBiasesAndFiltersButMinPOffUnlessGiven) {
  const SamplingFlags sampling = parse({"run", "m.gguf", "x"}).run.sampling;
  EXPECT_EQ(sampling.top_k, 0u);
  EXPECT_EQ(sampling.top_p, 0);
  EXPECT_FLOAT_EQ(sampling.min_p, 0.1f);  // small models write nonsense without it
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
  EXPECT_EQ(refusal({"run", "m.gguf", "hi", "--tmp", "0.5"}),
            "run: --tmp is not a flag of run; did you mean --temp?; see quern run --help");
  EXPECT_EQ(refusal({"run", "m.gguf", "--temprature=0.5", "hi"}),
            "run: --temprature is not a flag of run; did you mean --temperature?; see quern run --help");
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
  EXPECT_EQ(line.bench.lists.prompts, std::vector{64u});
  EXPECT_EQ(line.bench.lists.decodes, std::vector{16u});
  EXPECT_EQ(line.bench.lists.repetitions, 3u);
  EXPECT_EQ(line.settings.at("threads"), "2");
  EXPECT_EQ(line.bench.lists.batches, std::vector{8u});
  EXPECT_EQ(line.bench.lists.depths, std::vector{std::uint64_t{100}});
}

TEST(CommandLine, GivesTheSettingsFlagsToEveryComputingVerb) {
  const std::vector<std::vector<std::string>> verbs = {{"run", "m", "x"}, {"eval", "m", "f"}, {"bench", "m"},
                                                       {"estimate", "m"}, {"devices"},        {"doctor"}};
  for (std::vector<std::string> arguments : verbs) {
    arguments.insert(arguments.end(), {"--backend", "cpu", "--device", "cpu:0", "--threads", "2", "--memory", "cuda:0=8G", "--memory",
                                       "cpu=1G", "--deterministic"});
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
  EXPECT_THAT(refusal({"-v"}), testing::HasSubstr("quern --help"));
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
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {"-", "--file", "-"}, {"x", "--file", "-", "--file", "-"}, {"x", "--file", "-", "--system-file", "-"}}) {
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
  const quern_shape shape = parse({"estimate", "--hidden", "4096", "--ffn", "14336", "--layers", "32", "--vocab", "32000", "--heads", "32",
                                   "--kv-heads", "8", "--tied"})
                                .estimate.shape;
  EXPECT_EQ(shape.hidden, 4096u);
  EXPECT_EQ(shape.feed_forward, 14336u);
  EXPECT_EQ(shape.layers, 32u);
  EXPECT_EQ(shape.vocabulary, 32000u);
  EXPECT_EQ(shape.heads, 32u);
  EXPECT_EQ(shape.kv_heads, 8u);
  EXPECT_EQ(shape.tied, 1u);
}

/// The page of --help or --help-all, of the program ("") and of each verb.
std::map<std::string, std::string> pages(const char* flag) {
  CommandLine ignored;
  const Parser parser(ignored, "");
  std::vector<std::vector<std::string>> lines{{flag}};
  for (const VerbApp& verb : parser.verbs) lines.push_back({verb.app->get_name(), flag});
  std::map<std::string, std::string> found;
  for (const auto& line : lines) {
    try {
      parse(line);
    } catch (const Answered& answer) { found[line.size() == 1 ? "" : line.front()] = answer.text; }
  }
  EXPECT_EQ(found.size(), lines.size());
  return found;
}

TEST(Help, FitsAHundredColumnsAndBeginsWithAnExample) {
  for (const char* flag : {"--help", "--help-all"}) {
    for (const auto& [verb, page] : pages(flag)) {
      EXPECT_THAT(page, testing::StartsWith("Example: quern " + verb));
      std::istringstream text(page);
      for (std::string row; std::getline(text, row);) EXPECT_LE(row.size(), 100u) << verb << ": " << row;
    }
  }
}

TEST(Help, NoSentenceHasMoreThan25Words) {
  CommandLine ignored;
  const Parser parser(ignored, "");
  std::vector<std::string> texts;
  for (const VerbApp& verb : parser.verbs) {
    texts.push_back(verb.app->get_description());
    for (const CLI::Option* option : verb.app->get_options()) texts.push_back(option->get_description());
  }
  for (const std::string& text : texts) {
    std::size_t words = 0;
    std::istringstream read(text);
    for (std::string word; read >> word;) {
      EXPECT_LE(++words, 25u) << text;
      if (word.ends_with('.') || word.ends_with(';') || word.ends_with(':')) words = 0;
    }
  }
}

TEST(Help, EachExampleIsACommandLineThatIsTaken) {
  for (const Example& example : all_examples()) {
    std::string line = example.line;
    if (const auto pipe = line.find("| "); pipe != std::string::npos) line = line.substr(pipe + 2);
    std::istringstream text(line);
    std::vector<std::string> words;
    for (std::string word; text >> std::quoted(word);) words.push_back(word);
    ASSERT_EQ(words.front(), "quern");
    EXPECT_EQ(parse({words.begin() + 1, words.end()}).verb_name, example.verb) << line;
  }
}

TEST(CommandLine, TakesTheNamesThatUsersOfOtherProgramsType) {
  const CommandLine line = parse({"run", "-m",  "m.gguf",          "-p", "Why?", "-n", "7", "-c", "64", "-t", "2", "--temp", "0", "-s", "3",
                                  "-r",  "End", "--repeat-last-n", "5",  "-l",   "7=1"});
  EXPECT_EQ(line.run.model.path, "m.gguf");
  EXPECT_EQ(line.run.prompt, "Why?");
  EXPECT_EQ(line.run.max_tokens, 7u);
  EXPECT_EQ(line.run.context, 64u);
  EXPECT_EQ(line.settings.at("threads"), "2");
  EXPECT_EQ(line.run.sampling.temperature, 0);
  EXPECT_EQ(line.run.sampling.seed, 3u);
  EXPECT_EQ(line.run.stop, std::vector<std::string>{"End"});
  EXPECT_EQ(line.run.sampling.penalty_window, 5u);
  for (const char* name : {"--n-predict", "--predict", "--num-predict"})
    EXPECT_EQ(parse({"run", "m", "x", name, "9"}).run.max_tokens, 9u) << name;
  for (const char* name : {"--ctx-size", "--num-ctx"}) EXPECT_EQ(parse({"run", "m", "x", name, "9"}).run.context, 9u) << name;
  EXPECT_EQ(parse({"run", "-hf", "owner/name", "x"}).run.model.path, "owner/name");
  EXPECT_EQ(parse({"run", "m", "x", "-sys", "be brief"}).run.system, "be brief");
  EXPECT_EQ(parse({"run", "m", "x", "--stop", "-hf"}).run.stop, std::vector<std::string>{"-hf"});
  EXPECT_EQ(parse({"chat", "m"}).verb, Verb::run);
  EXPECT_EQ(parse({"ls"}).verb, Verb::list);
  EXPECT_EQ(parse({"ps"}).verb, Verb::ps);
}

TEST(CommandLine, ANameOfAnotherProgramMeansOneFlag) {
  CommandLine ignored;
  const Parser parser(ignored, "");
  for (const VerbApp& verb : parser.verbs) {
    std::set<std::string> names;
    for (const CLI::Option* option : verb.app->get_options()) {
      for (const std::string& name : option->get_lnames()) EXPECT_TRUE(names.insert(name).second) << verb.app->get_name() << " " << name;
      for (const std::string& name : option->get_snames()) EXPECT_TRUE(names.insert(name).second) << verb.app->get_name() << " " << name;
    }
  }
}

TEST(CommandLine, AFailedCommandIsToldHowNamesOfOtherProgramsWereRead) {
  EXPECT_EQ(other_names_used({"run", "m", "x", "--temp", "0", "-n", "3", "--ctx-size=9", "--stop", "--temp", "--", "--predict"}),
            (std::vector<std::string>{"--temp was read as --temperature", "--ctx-size was read as --context"}));
  EXPECT_TRUE(other_names_used({"run", "m", "x", "--temperature", "0"}).empty());
  EXPECT_TRUE(other_names_used({"nonsense", "--temp"}).empty());
}

TEST(CommandLine, AModelByItsFlagLeavesItsPlaceToThePrompt) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"run", "-m", "m", "hi"}, {"run", "hi", "-m", "m"}, {"run", "-m", "m", "-p", "hi"}}) {
    EXPECT_EQ(parse(words).run.model.path, "m");
    EXPECT_EQ(parse(words).run.prompt, "hi");
  }
  EXPECT_EQ(parse({"tokenize", "-m", "m", "a b"}).tokenize.text, "a b");
  EXPECT_EQ(parse({"eval", "-m", "m", "f"}).eval.file, "f");
  EXPECT_EQ(parse({"bench", "-m", "m", "-p", "8"}).bench.lists.prompts, std::vector<std::uint32_t>{8});
  EXPECT_THAT(refusal({"run", "a", "b", "-m", "c"}), testing::HasSubstr("given twice"));
  EXPECT_THAT(refusal({"run", "m", "b", "-p", "c"}), testing::HasSubstr("given twice"));
  EXPECT_THAT(refusal({"show", "a", "-m", "c"}), testing::HasSubstr("given twice"));
  EXPECT_THAT(refusal({"run", "-m", "m", "hi", "there", "friend"}), testing::HasSubstr("\"hi there friend\""));
}

TEST(CommandLine, AModelFromItsVariableYieldsToTheCommandLine) {
  const auto with = [](const std::vector<std::string>& words) {
    return parse_command_line(words, "", [](const char* name) {
      return std::string(name) == "QUERN_MODEL" ? std::optional<std::string>("v.gguf") : std::nullopt;
    });
  };
  EXPECT_EQ(with({"run", "-p", "hi"}).run.model.path, "v.gguf");
  EXPECT_EQ(with({"run", "m.gguf"}).run.model.path, "m.gguf");
  EXPECT_FALSE(with({"run", "m.gguf"}).run.prompt.has_value());
  EXPECT_TRUE(
      with({"estimate", "--hidden", "64", "--ffn", "8", "--layers", "1", "--vocab", "9", "--heads", "2"}).estimate.model.path.empty());
}

TEST(CommandLine, AFlagThatOnlyAnotherProgramHasIsAnsweredWithWhatHoldsHere) {
  EXPECT_THAT(refusal({"run", "m", "x", "-ngl", "99"}), testing::StartsWith("run: -ngl is not a flag of quern: layers go to"));
  EXPECT_THAT(refusal({"run", "m", "x", "--flash-attn"}), testing::HasSubstr("fused"));
  EXPECT_THAT(refusal({"run", "m", "x", "--n-gpu-layers=5"}), testing::HasSubstr("--memory"));
}

TEST(CommandLine, ZeroIsRefusedOrMeansWhatItSays) {
  EXPECT_THAT(refusal({"run", "m", "x", "-n", "0"}), testing::HasSubstr("leave it out for an answer to its end"));
  EXPECT_EQ(parse({"run", "m", "x", "-n", "-1"}).run.max_tokens, 0u);
  EXPECT_THAT(refusal({"run", "m", "x", "-n", "-2"}), testing::HasSubstr("--max-tokens"));
  EXPECT_THAT(refusal({"run", "m", "x", "-c", "0"}), testing::HasSubstr("--context"));
  EXPECT_THAT(refusal({"run", "m", "x", "--repeat-penalty", "0"}), testing::HasSubstr("1 is no penalty"));
  EXPECT_GT(parse({"run", "m", "x", "--top-p", "0"}).run.sampling.top_p, 0);  // 0 is off for the library
  EXPECT_LT(parse({"run", "m", "x", "--top-p", "0"}).run.sampling.top_p, 1e-30f);
  EXPECT_FALSE(parse({"run", "m", "x", "--seed", "-1"}).run.sampling.seed.has_value());
  EXPECT_EQ(parse({"run", "m", "x", "--repeat-last-n", "-1"}).run.sampling.penalty_window, std::uint32_t{QUERN_WINDOW_ALL});
  EXPECT_THAT(refusal({"estimate", "--hidden", "64", "--kv-heads", "0"}), testing::HasSubstr("--kv-heads"));
}

TEST(CommandLine, TheFileGivesWhatNeitherFlagNorVariableGives) {
  const auto with = [](std::vector<std::string> words, const std::string& file) {
    return parse_command_line(
        words, "", [](const char* name) { return std::string(name) == "QUERN_TOP_K" ? std::optional<std::string>("40") : std::nullopt; },
        [&] { return parse_config(file, "q.conf"); });
  };
  const std::string file =
      "temperature = 0.5\ntop_k = 7\nmax-tokens = 9\n[owner/name]\ntemperature = 0.25\n[m.gguf]\nmin_p = 0.125\nsystem = be brief\n";
  const CommandLine other = with({"run", "other", "x", "--max-tokens", "3"}, file);
  EXPECT_FLOAT_EQ(other.run.sampling.temperature, 0.5f);
  EXPECT_EQ(other.run.sampling.top_k, 40u);
  EXPECT_EQ(other.run.max_tokens, 3u);
  EXPECT_FLOAT_EQ(with({"run", "owner/name:Q4_K_M", "x"}, file).run.sampling.temperature, 0.25f);
  const CommandLine by_file = with({"run", "-m", "folder/m.gguf", "x"}, file);
  EXPECT_FLOAT_EQ(by_file.run.sampling.min_p, 0.125f);
  EXPECT_FLOAT_EQ(by_file.run.sampling.temperature, 0.5f);
  EXPECT_EQ(by_file.run.system, "be brief");
  EXPECT_FALSE(with({"run", "m.gguf", "x", "--raw"}, file).run.system.has_value());
  try {
    with({"run", "m", "x"}, "top_p = much\n");
    ADD_FAILURE() << "it was taken";
  } catch (const Failure& failure) { EXPECT_THAT(failure.what(), testing::HasSubstr("q.conf:1: top_p: 'much'")); }
}

TEST(CommandLine, AMisspeltVariableIsNamedWithTheNearestOne) {
  EXPECT_EQ(misspelt_variables({"QUERN_THREDS", "QUERN_TOP_K", "QUERN_TEST_MODEL", "QUERN_SOMETHING_ELSE", "HOME"}),
            std::vector<std::string>{"QUERN_THREDS is not a variable of quern; did you mean QUERN_THREADS?"});
  EXPECT_EQ(misspelt_variables({"QUERN_temprature"}).size(), 1u);
}

TEST(CommandLine, AnswersHelpAndVersionOnStandardOutput) {
  const auto answered = [](const std::vector<std::string>& arguments) -> std::string {
    try {
      parse(arguments);
    } catch (const Answered& answer) { return answer.text; }
    return "";
  };
  EXPECT_THAT(answered({"--version"}), testing::HasSubstr("quern 9.9"));
  for (const char* verb : {"run", "tokenize", "eval", "bench", "devices", "doctor", "show", "estimate"})
    EXPECT_THAT(answered({"--help"}), testing::HasSubstr(verb));
  EXPECT_THAT(answered({"run", "--help"}), testing::HasSubstr("--repeat-penalty"));
  EXPECT_THAT(answered({"run", "--help"}), testing::Not(testing::HasSubstr("--force-kernel")));
  EXPECT_THAT(answered({"run", "--help-all"}), testing::HasSubstr("--force-kernel"));
  EXPECT_THAT(answered({"run", "--help-all"}), testing::HasSubstr("QUERN_BACKEND"));
  EXPECT_THAT(answered({}), testing::HasSubstr("quern help"));
  EXPECT_EQ(answered({"help", "run"}), answered({"run", "--help"}));
  EXPECT_EQ(answered({"help"}), answered({"--help"}));
  EXPECT_EQ(answered({"help", "ls"}), answered({"list", "--help"}));
  EXPECT_EQ(answered({"version"}), answered({"--version"}));
}

}  // namespace
}  // namespace quern::cli
