// Runs the rule cases, and checks that no op is without one of each kind.
#include "rule_cases.hpp"

#include "quern/graph/op_info.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace quern::test {
namespace {

std::vector<RuleCase> all_cases() {
  std::vector<RuleCase> all;
  for (const auto& list : {elementwise_cases(), activation_cases(), copy_cases(), rows_cases(), norm_cases(), softmax_cases(), rope_cases(),
                           matmul_cases(), attention_cases(), sampling_cases(), training_cases(), reduction_cases()})
    all.insert(all.end(), list.begin(), list.end());
  return all;
}

std::string describe_outputs(const graph::Graph& graph) {
  std::string text;
  for (const ValueId id : graph.nodes().back().outputs) {
    if (!text.empty()) text += "; ";
    text += id == no_value ? "-" : graph.describe(id);
  }
  return text;
}

class Rules : public testing::TestWithParam<RuleCase> {};

TEST_P(Rules, Hold) {
  const RuleCase& one = GetParam();
  Bench bench;
  if (one.words.empty()) {
    ASSERT_NO_THROW(one.build(bench));
    EXPECT_EQ(bench.g.nodes().back().op, one.op);
    EXPECT_EQ(describe_outputs(bench.g), one.outputs);
    return;
  }
  try {
    one.build(bench);
    FAIL() << "it was accepted as " << describe_outputs(bench.g);
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.code(), QUERN_INVALID_ARGUMENT);
    EXPECT_TRUE(text.starts_with(graph::op_name(one.op) + " 'here': ")) << text;
    for (const std::string& word : one.words) EXPECT_NE(text.find(word), std::string::npos) << text << "\nlacks: " << word;
  }
  EXPECT_TRUE(bench.g.nodes().empty()) << "a refused node was added";
}

INSTANTIATE_TEST_SUITE_P(Ops, Rules, testing::ValuesIn(all_cases()), [](const auto& one) {
  std::string name;
  for (const char c : graph::op_name(one.param.op)) name += c;
  return name + "_" + one.param.name;
});

TEST(Rules, EveryOpHasAnAcceptedAndARefusedCase) {
  std::set<std::uint32_t> accepted, refused;
  for (const RuleCase& one : all_cases()) (one.words.empty() ? accepted : refused).insert(one.op);
  for (const graph::OpInfo& op : graph::all_ops()) {
    EXPECT_TRUE(accepted.contains(op.id)) << op.name;
    EXPECT_TRUE(refused.contains(op.id)) << op.name;
  }
}

}  // namespace

Bench::Bench() : t(0), o(0) {
  t = Dim(16, g.add_symbol({.name = "tokens", .min = 1, .max = 16}));
  o = Dim(4, g.add_symbol({.name = "outputs", .min = 0, .max = 4}));
}

}  // namespace quern::test
