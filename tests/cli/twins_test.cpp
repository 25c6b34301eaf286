// Every flag of every verb, from the parser itself: it has a variable, the variable works, and --show-config says so.
#include "completions.hpp"
#include "environment.hpp"
#include "failure.hpp"
#include "parser.hpp"
#include "show_config.hpp"
#include "twins.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace quern::cli {
namespace {

CommandLine parsed(const std::vector<std::string>& arguments, const Variables& variables = {}) {
  return parse_command_line(arguments, "quern 9.9", environment(variables));
}

const FlagState& state(const CommandLine& line, const std::string& flag) {
  const auto found = std::ranges::find(line.flags, flag, &FlagState::flag);
  if (found == line.flags.end()) throw std::out_of_range(flag);
  return *found;
}

std::string refusal(const std::vector<std::string>& arguments, const Variables& variables) {
  try {
    parsed(arguments, variables);
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), exit_usage);
    return failure.what();
  }
  return "";
}

/// A value that the option takes, other than its default.
std::string example_of(const CLI::Option& option) {
  static const std::map<std::string, std::string> examples = {{"auto|f32", "f32"},          {"auto|f32|f16|bf16", "f16"},
                                                              {"f16|f32", "f32"},           {"auto|warn|strict", "strict"},
                                                              {"off|on|verify", "on"},      {"table|markdown|csv|json", "csv"},
                                                              {"TOKEN=BIAS", "7=1"},        {"LEVEL", "trace"},
                                                              {"LIMITS", "cpu=1G"},         {"BYTES", "8G"},
                                                              {"lora|qlora|full", "qlora"}, {"peft|gguf", "gguf"},
                                                              {"f32|f16|bf16", "f16"},      {"X", "0.25"}};
  if (!takes_value(option)) return "1";
  const auto found = examples.find(option.get_type_name());
  return found == examples.end() ? "3" : found->second;
}

TEST(Twins, EveryFlagOfEveryVerbTakesItsValueFromItsVariable) {
  CommandLine ignored;
  const Parser parser(ignored, "");
  std::size_t tried = 0;
  std::map<std::string, std::string> flag_of;  // a variable means one flag, in every verb
  for (const VerbApp& verb : parser.verbs) {
    for (const CLI::Option* option : verb.app->get_options()) {
      const std::string flag = flag_name(*option);
      if (option->get_positional()) continue;
      ASSERT_FALSE(flag.empty()) << verb.app->get_name() << " has a flag without a long name: " << option->get_name();
      if (flag == "--help" || flag == "--help-all" || flag == "--show-config") continue;
      SCOPED_TRACE(verb.app->get_name() + " " + flag);
      const std::string variable = variable_of(*option), value = example_of(*option);
      ASSERT_FALSE(variable.empty());
      EXPECT_EQ(flag_of.emplace(variable, flag).first->second, flag);
      const CommandLine line = parsed({verb.app->get_name(), "--show-config"}, {{variable, value}});
      const Json json = config_json(line, environment({{variable, value}}), {}, {});
      const Json& settings = json.at("settings");
      const auto entry = std::ranges::find_if(settings, [&](const Json& one) { return one.at("flag") == flag; });
      ASSERT_NE(entry, settings.end());
      EXPECT_EQ(entry->at("origin"), "environment");
      EXPECT_EQ(entry->at("where"), variable);
      EXPECT_EQ(entry->at("value"), !takes_value(*option) ? "on" : value);
      const Json plain = config_json(parsed({verb.app->get_name(), "--show-config"}), environment({}), {}, {});
      const auto standard = std::ranges::find_if(plain.at("settings"), [&](const Json& one) { return one.at("flag") == flag; });
      EXPECT_EQ(standard->at("origin"), "default");
      EXPECT_NE(standard->at("value"), "") << "a flag says what holds without it";
      EXPECT_NE(standard->at("value"), entry->at("value"));
      ++tried;
    }
  }
  EXPECT_GT(tried, 150u);
}

TEST(Twins, AVariableReachesWhatItsFlagReaches) {
  const CommandLine line = parsed({"run", "m", "x"}, {{"QUERN_TOP_K", "40"},
                                                      {"QUERN_TEMPERATURE", "0.5"},
                                                      {"QUERN_STOP", "a, b"},
                                                      {"QUERN_LOGIT_BIAS", "7=-inf"},
                                                      {"QUERN_JSON", "1"},
                                                      {"QUERN_QUIET", "0"},
                                                      {"QUERN_KV", "f32"},
                                                      {"QUERN_SEED", "9"},
                                                      {"QUERN_SYSTEM", "be brief"}});
  EXPECT_EQ(line.run.sampling.top_k, 40u);
  EXPECT_FLOAT_EQ(line.run.sampling.temperature, 0.5f);
  EXPECT_EQ(line.run.stop, std::vector<std::string>{"a, b"});
  ASSERT_EQ(line.run.sampling.bias.size(), 1u);
  EXPECT_EQ(line.run.sampling.bias[0].token, 7);
  EXPECT_TRUE(line.json);
  EXPECT_FALSE(line.quiet);
  EXPECT_EQ(line.run.model.kv, std::uint32_t{QUERN_KV_F32});
  EXPECT_EQ(line.run.sampling.seed, 9u);
  EXPECT_EQ(line.run.system, "be brief");
}

TEST(Twins, AFlagIsStrongerThanItsVariable) {
  const CommandLine line = parsed({"run", "m", "x", "--top-k", "3", "--stop", "b"}, {{"QUERN_TOP_K", "many"}, {"QUERN_STOP", "a"}});
  EXPECT_EQ(line.run.sampling.top_k, 3u);
  EXPECT_EQ(line.run.stop, std::vector<std::string>{"b"});
  EXPECT_EQ(state(line, "--top-k").given.origin, Origin::flag);
}

TEST(Twins, AVariableOfAnotherVerbIsLeftAlone) { EXPECT_EQ(parsed({"bench", "m"}, {{"QUERN_TOP_K", "many"}}).bench.lists.repetitions, 5u); }

TEST(Twins, RefusesAValueByTheNameOfItsVariable) {
  EXPECT_THAT(refusal({"run", "m", "x"}, {{"QUERN_TOP_K", "many"}}), testing::StartsWith("run: QUERN_TOP_K: 'many'"));
  EXPECT_THAT(refusal({"run", "m", "x"}, {{"QUERN_TEMPERATURE", "-1"}}), testing::StartsWith("run: QUERN_TEMPERATURE: '-1'"));
  EXPECT_THAT(refusal({"run", "m", "x"}, {{"QUERN_KV", "q4"}}), testing::StartsWith("run: QUERN_KV: "));
  EXPECT_THAT(refusal({"run", "m", "x"}, {{"QUERN_RAW", "maybe"}}), testing::StartsWith("run: QUERN_RAW: 'maybe'"));
  EXPECT_THAT(refusal({"run", "m", "x"}, {{"QUERN_LOGIT_BIAS", "7"}}), testing::StartsWith("run: QUERN_LOGIT_BIAS: '7'"));
}

TEST(Twins, VerboseFromTheEnvironmentIsWeakerThanTheLogFromIt) {
  EXPECT_EQ(parsed({"doctor"}, {{"QUERN_VERBOSE", "1"}}).settings.at("log"), "debug");
  EXPECT_EQ(parsed({"doctor"}, {{"QUERN_VERBOSE", "1"}, {"QUERN_LOG", "error"}}).settings.count("log"), 0u);
  EXPECT_EQ(parsed({"doctor", "-v"}, {{"QUERN_LOG", "error"}}).settings.at("log"), "debug");
}

TEST(ShowConfig, NeedsNoModelAndNoVerb) {
  EXPECT_TRUE(parsed({"run", "--show-config"}).show_config);
  EXPECT_TRUE(parsed({"--show-config"}).show_config);
  EXPECT_EQ(parsed({"--show-config"}).verb_name, "");
  EXPECT_THAT(refusal({"run"}, {}), testing::HasSubstr("MODEL"));
  EXPECT_THAT(refusal({"run", "m", "--", "x", "--show-config"}, {}), testing::HasSubstr("--show-config"));  // a third place
  EXPECT_EQ(parsed({"run", "m", "--", "--show-config"}).run.prompt, "--show-config");
}

TEST(ShowConfig, NamesTheStrongestOriginOfEachValue) {
  const Variables variables = {{"QUERN_BACKEND", "cuda"}, {"QUERN_THREADS", "7"}, {"QUERN_MIN_P", "0.1"}};
  const Config config = parse_config("backend = cpu\nmemory = cpu=1G\nthreads = 2\n", "q.conf");
  const CommandLine line = parsed({"run", "--show-config", "--threads", "3", "-v"}, variables);
  const Json json = config_json(line, environment(variables), config, {"/nonexistent/quern.conf"});
  std::map<std::string, Json> by_flag;
  for (const Json& one : json.at("settings")) by_flag[one.at("flag")] = one;
  EXPECT_EQ(by_flag.at("--threads"), Json({{"flag", "--threads"},
                                           {"variable", "QUERN_THREADS"},
                                           {"key", "threads"},
                                           {"value", "3"},
                                           {"origin", "flag"},
                                           {"where", "--threads"}}));
  EXPECT_EQ(by_flag.at("--backend").at("where"), "QUERN_BACKEND");
  EXPECT_EQ(by_flag.at("--memory").at("where"), "q.conf:2");
  EXPECT_EQ(by_flag.at("--memory").at("origin"), "file");
  EXPECT_EQ(by_flag.at("--min-p").at("value"), "0.1");
  EXPECT_EQ(by_flag.at("--top-p").at("origin"), "default");
  EXPECT_EQ(by_flag.at("--log").at("where"), "--verbose");
  EXPECT_EQ(json.at("files")[0].at("exists"), false);
  const std::string page = config_page(line, environment(variables), config, {});
  EXPECT_THAT(page, testing::ContainsRegex("--memory +cpu=1G +file q.conf:2\n"));
  EXPECT_THAT(page, testing::ContainsRegex("--threads +3 +flag\n"));
}

TEST(ShowConfig, ADefaultIsTheValueThatWouldBeUsed) {
  const Variables variables = {{"HOME", "/h"}};
  const CommandLine line = parsed({"run", "--show-config", "--top-k", "3"}, variables);
  EffectiveDefaults defaults = folder_defaults(environment(variables));
  defaults["--threads"] = "6";
  defaults["--context"] = "2048";
  defaults["--top-k"] = "unused";
  const std::string page = config_page(line, environment(variables), {}, {}, defaults);
  EXPECT_THAT(page, testing::ContainsRegex("--threads +6 +default\n"));
  EXPECT_THAT(page, testing::ContainsRegex("--context +2048 +default\n"));
  EXPECT_THAT(page, testing::ContainsRegex("--cache-dir +/h/.cache/quern +default\n"));
  EXPECT_THAT(page, testing::ContainsRegex("--top-k +3 +flag\n"));
  EXPECT_EQ(folder_defaults(environment({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}})).at("--hub-cache"), "/x/huggingface/hub");
}

TEST(Completions, NameEveryVerbAndEveryFlagInEachShell) {
  CommandLine ignored;
  const Parser parser(ignored, "");
  const std::string bash = bash_completions(), zsh = zsh_completions(), fish = fish_completions();
  for (const VerbApp& verb : parser.verbs) {
    const std::string name = verb.app->get_name();
    EXPECT_THAT(fish, testing::HasSubstr("-a " + name + " -d"));
    for (const CLI::Option* option : verb.app->get_options()) {
      const std::string flag = flag_name(*option);
      if (flag.empty()) continue;
      EXPECT_THAT(bash, testing::HasSubstr(flag));
      EXPECT_THAT(zsh, testing::HasSubstr(flag));
      EXPECT_THAT(fish, testing::HasSubstr("'__fish_seen_subcommand_from " + name));
      EXPECT_THAT(fish, testing::HasSubstr("-l " + flag.substr(2)));
    }
  }
}

}  // namespace
}  // namespace quern::cli
