// The table of cases: names, data, selection, manifest, exclusions.
#include "case_table/exclusions.hpp"
#include "case_table/selection.hpp"
#include "worker/arena.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

namespace quern::conformance {
namespace {

const CaseTable& table() {
  static const CaseTable all;
  return all;
}

TEST(CaseTable, TheManifestsHoldTheNamesOfTheirProfiles) {
  for (const Profile profile : {Profile::quick, Profile::full, Profile::huge}) {
    std::ifstream in(std::string(QUERN_SOURCE_DIR "/conformance/manifest/") + profile_name(profile) + ".txt");
    std::stringstream text;
    text << in.rdbuf();
    EXPECT_EQ(text.str(), manifest_text(table(), profile))
        << "if the cases were meant to change: quern-conformance list --profile " << profile_name(profile) << " --write-manifest conformance/manifest/"
        << profile_name(profile) << ".txt";
  }
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
