// The table of cases: names, data, selection, manifest, exclusions.
#include "case_table/exclusions.hpp"
#include "case_table/manifest.hpp"
#include "case_table/selection.hpp"
#include "cli/flags.hpp"
#include "worker/arena.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>

namespace quern::conformance {
namespace {

const CaseTable& table() {
  static const CaseTable all;
  return all;
}

TEST(Manifest, EachFileIsThatOfItsProfile) {
  for (const Profile profile : {Profile::quick, Profile::full, Profile::huge}) {
    std::ifstream in(std::string(QUERN_SOURCE_DIR "/conformance/manifest/") + profile_name(profile) + ".txt");
    std::stringstream text;
    text << in.rdbuf();
    EXPECT_EQ(manifest_difference(table(), profile, text.str()), "");
    EXPECT_EQ(manifest_problem(table(), profile), "") << "this program was built with another manifest";
  }
}

/// The manifest of the quick profile after a change of the line that begins with `start`.
std::string changed_manifest(const std::string& start, const std::function<std::string(const std::string&)>& change) {
  std::istringstream lines(manifest_text(table(), Profile::quick));
  std::string text;
  for (std::string line; std::getline(lines, line);) text += line.starts_with(start) ? change(line) : line + "\n";
  return text;
}

TEST(Manifest, ADifferenceNamesTheFamiliesWhatTheyHaveAndHowToWriteIt) {
  EXPECT_EQ(manifest_difference(table(), Profile::quick, manifest_text(table(), Profile::quick)), "");
  const std::string command = "list --profile quick --write-manifest conformance/manifest/quick.txt";
  const std::string other = manifest_difference(
      table(), Profile::quick, changed_manifest("matmul ", [](const std::string&) { return "matmul 7 0123456789abcdef\n"; }));
  EXPECT_NE(other.find("\n  matmul: "), std::string::npos) << other;
  EXPECT_NE(other.find("; the manifest says 7 cases, hash 0123456789abcdef"), std::string::npos) << other;
  EXPECT_EQ(other.find("softmax"), std::string::npos) << other;
  EXPECT_NE(other.find(command), std::string::npos) << other;
  const std::string without =
      manifest_difference(table(), Profile::quick, changed_manifest("rope ", [](const std::string&) { return ""; }));
  EXPECT_NE(without.find("; the manifest does not list it"), std::string::npos) << without;
  const std::string more = manifest_difference(table(), Profile::quick, changed_manifest("silu ", [](const std::string& line) {
                                                 return "sild 3 00000000000000aa\n" + line + "\n";
                                               }));
  EXPECT_NE(more.find("\n  sild: no cases; the manifest says 3 cases, hash 00000000000000aa"), std::string::npos) << more;
  EXPECT_NE(manifest_difference(table(), Profile::quick, ""), "") << "an empty manifest is none";
}

TEST(Manifest, ANameMoreOrAnotherNameChangesItsFamilyAlone) {
  const std::vector<const Case*> quick = table().of(Profile::quick);
  std::map<std::string, std::size_t> counts;
  for (const Case* c : quick) ++counts[c->family];
  EXPECT_GT(counts.size(), 40u);
  EXPECT_FALSE(counts.contains("")) << "a case belongs to no family";
  std::istringstream lines(manifest_text(table(), Profile::quick));
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "# quick: " + manifest_line(table(), Profile::quick));
  std::size_t families = 0;
  for (; std::getline(lines, line); ++families) {
    const std::string family = line.substr(0, line.find(' '));
    EXPECT_EQ(line.substr(family.size() + 1, line.rfind(' ') - family.size() - 1), std::to_string(counts[family])) << line;
  }
  EXPECT_EQ(families, counts.size());
}

TEST(CaseTable, EveryNameFindsItsCase) {
  for (const Case& c : table().all()) EXPECT_EQ(table().find(c.name), &c);
  EXPECT_EQ(table().find("no.such.case"), nullptr);
}

TEST(CaseTable, TwoCasesOfOneNameAreRefused) {
  const Case* first = table().of(Profile::quick).front();
  CaseSink sink;
  sink.add(*first);
  EXPECT_THROW(sink.add(*first), std::logic_error);
}

TEST(CaseTable, AnAttributeChangesTheName) {
  Case c = *table().of(Profile::quick).front();
  const std::string before = case_name(c);
  c.attributes.push_back({QUERN_KEY_ALPHA, 0.5});
  EXPECT_NE(case_name(c), before);
  EXPECT_NE(case_name(c).find("alpha=0p5"), std::string::npos);
}

TEST(CaseTable, DataDependsOnTheNameAlone) {
  const Case& c = *table().of(Profile::quick).front();
  std::vector<std::byte> first(input_bytes(c)), second(input_bytes(c), std::byte{0xee});
  fill_data(c, map_data(c, first));
  fill_data(c, map_data(c, second));
  EXPECT_EQ(map_data(c, first).inputs[0].values().size(), map_data(c, second).inputs[0].values().size());
  const auto a = map_data(c, first).inputs[0].bytes(), b = map_data(c, second).inputs[0].bytes();
  EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end()));
}

TEST(Selection, AFilterThatMatchesNothingIsAnError) {
  Options o;
  o.filters = {"matmul.*", "zzzz*"};
  EXPECT_THROW(select_cases(table(), o), UsageError);
  o.filters = {"matmul.*"};
  EXPECT_FALSE(select_cases(table(), o).empty());
  o.ops = {"no_such_op"};
  EXPECT_THROW(select_cases(table(), o), UsageError);
}

TEST(Selection, ShardsDivideTheCases) {
  Options o;
  std::multiset<std::string> seen;
  o.shards = 3;
  for (o.shard = 1; o.shard <= 3; ++o.shard)
    for (const Case* c : select_cases(table(), o)) seen.insert(c->name);
  std::multiset<std::string> all;
  for (const Case* c : table().of(Profile::quick)) all.insert(c->name);
  EXPECT_EQ(seen, all);
}

TEST(Selection, LevelOneIsCopiesMatmulAndTheAbi) {
  Options o;
  o.level = level_basic;
  for (const Case* c : select_cases(table(), o)) EXPECT_TRUE(c->group == "copy" || c->group == "matmul" || c->group == "abi") << c->name;
}

TEST(Options, BadOnesAreNamed) {
  EXPECT_THROW(parse_options({"run", "--nonsense"}), UsageError);
  EXPECT_THROW(parse_options({"run", "--filter"}), UsageError);
  EXPECT_THROW(parse_options({"run", "--level", "5"}), UsageError);
  EXPECT_THROW(parse_options({"run", "--shard", "4/3"}), UsageError);
  EXPECT_THROW(parse_options({"run", "--memory", "8G"}), UsageError);
  const Options o = parse_options({"run", "--filter=a*", "--filter", "b*", "--profile", "full"});
  EXPECT_EQ(o.filters, (std::vector<std::string>{"a*", "b*"}));
  EXPECT_EQ(o.profile, Profile::full);
}

Environment environment_of(std::map<std::string, std::string> variables) {
  return [variables](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return {};
    return found->second;
  };
}

TEST(Options, EachHasAVariableThatIsWeakerThanItself) {
  std::set<std::string> variables;
  for (const Flag& flag : flag_table()) {
    const std::string variable = variable_of(flag);
    if (variable.empty()) continue;
    EXPECT_TRUE(variables.insert(variable).second) << variable;
    if (!variable.starts_with("QUERN_CONFORMANCE_")) continue;  // the loader's
    const std::string value = flag.value.empty()         ? "1"
                              : flag.name == "--profile" ? "full"
                              : flag.name == "--shard"   ? "2/3"
                              : flag.name == "--option"  ? "a=b"
                                                         : "3";
    const Options by_variable = parse_options({"run"}, environment_of({{variable, value}}));
    const Options by_flag = flag.value.empty() ? parse_options({"run", std::string(flag.name)}, environment_of({}))
                                               : parse_options({"run", std::string(flag.name), value}, environment_of({{variable, "4"}}));
    ASSERT_TRUE(by_variable.given.contains(std::string(flag.name))) << variable;
    EXPECT_TRUE(by_variable.given.at(std::string(flag.name)).variable);
    EXPECT_FALSE(by_flag.given.at(std::string(flag.name)).variable);
    EXPECT_EQ(by_flag.given.at(std::string(flag.name)).value, value) << flag.name;
    const std::string page = config_page(by_variable);
    EXPECT_NE(page.find("environment " + variable + "\n"), std::string::npos) << page;
  }
  EXPECT_GT(variables.size(), 25u);
  const Options o = parse_options({"run", "--jobs", "2"}, environment_of({{"QUERN_CONFORMANCE_JOBS", "7"},
                                                                          {"QUERN_CONFORMANCE_FILTER", "a*"},
                                                                          {"QUERN_CONFORMANCE_STOP", "0"},
                                                                          {"QUERN_CONFORMANCE_VERBOSE", "1"}}));
  EXPECT_EQ(o.jobs, 2u);
  EXPECT_EQ(o.filters, std::vector<std::string>{"a*"});
  EXPECT_FALSE(o.stop_at_failure);
  EXPECT_TRUE(o.verbose);
}

TEST(Options, ABadVariableIsNamedAndProcessesOfTheSuiteReadNone) {
  const auto said = [](const char* variable, const char* value) -> std::string {
    try {
      parse_options({"run"}, environment_of({{variable, value}}));
    } catch (const UsageError& error) { return error.what(); }
    return "";
  };
  EXPECT_EQ(said("QUERN_CONFORMANCE_LEVEL", "5"), "QUERN_CONFORMANCE_LEVEL: 5 is not 1 to 4");
  EXPECT_EQ(said("QUERN_CONFORMANCE_STOP", "yes"), "QUERN_CONFORMANCE_STOP: 'yes' is not 1 or 0");
  EXPECT_TRUE(parse_options({"device-process", "cpu:0"}, environment_of({{"QUERN_CONFORMANCE_SEED", "9"}})).given.empty());
}

TEST(Options, TheHelpSaysWhatIsTheDefault) {
  const Options standard = parse_options({"run"}, environment_of({}));
  for (const Flag& flag : flag_table()) {
    if (flag.standard.empty()) continue;
    Options o = standard;
    flag.set(o, std::string(flag.standard));
    EXPECT_EQ(o.profile, standard.profile) << flag.name;
    EXPECT_EQ(o.level, standard.level) << flag.name;
    EXPECT_EQ(o.seed, standard.seed) << flag.name;
    EXPECT_EQ(o.repeat, standard.repeat) << flag.name;
    EXPECT_EQ(o.journal, standard.journal) << flag.name;
    EXPECT_EQ(o.samples, standard.samples) << flag.name;
  }
}

TEST(Exclusions, AnExcludedPassFailsAndAMandatoryNoFails) {
  const std::vector<Exclusion> list = {{ExclusionKind::never, "attention.*", "it has no attention"}};
  const Verdict pass{Status::pass, {}, 0, 1, {}}, no{Status::unsupported, "no kernel", 0, 0, {}};
  EXPECT_EQ(apply_exclusions(list, "attention.x", no).status, Status::waived);
  EXPECT_EQ(apply_exclusions(list, "attention.x", pass).status, Status::fail);
  EXPECT_EQ(apply_exclusions(list, "matmul.x", no).status, Status::fail);
  EXPECT_EQ(apply_exclusions(list, "matmul.x", pass).status, Status::pass);
}

}  // namespace
}  // namespace quern::conformance
