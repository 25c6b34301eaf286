// Runs the rule cases, and checks that no op is without one of each kind.
#include "rule_cases.hpp"

#include "quern/graph/op_info.hpp"
#include "support/op_rows.hpp"

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

/// The node of a call of OPS.md, its first input in `dtype`.
void add_row_call(Bench& bench, std::uint32_t op, const RowCall& call, quern_dtype dtype) {
  std::vector<ValueId> inputs;
  for (const RowOperand& operand : call.inputs) {
    Shape shape;
    for (const std::int64_t d : operand.dims) shape.push_back(Dim(d));
    inputs.push_back(bench.in(inputs.empty() ? dtype : operand.dtype, shape));
  }
  bench.g.add_node(op, inputs, {}, here());
}

/// As OPS.md has it: each dtype of the row is accepted, with outputs of the row's dtypes and shapes, and u8 is refused.
void expect_the_rule_of_the_row(const graph::OpInfo& op) {
  const std::vector<RowCall> calls = row_calls(QUERN_SOURCE_DIR "/plugin-api/OPS.md", op.id);
  ASSERT_FALSE(calls.empty()) << op.name;
  for (const RowCall& call : calls) {
    ASSERT_TRUE(row_is_whole(call)) << op.name << ": its row alone does not say what it takes; it needs cases of its own";
    Bench bench;
    ASSERT_NO_THROW(add_row_call(bench, op.id, call, call.inputs[0].dtype)) << op.name;
    const std::vector<ValueId>& outputs = bench.g.nodes().back().outputs;
    ASSERT_GE(outputs.size(), call.outputs.size()) << op.name;
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      EXPECT_EQ(bench.g.value(outputs[i]).dtype, call.outputs[i].dtype) << op.name;
      ASSERT_EQ(bench.g.value(outputs[i]).shape.size(), call.outputs[i].dims.size()) << op.name;
      for (std::size_t d = 0; d < call.outputs[i].dims.size(); ++d)
        EXPECT_EQ(bench.g.value(outputs[i]).shape[d].size, call.outputs[i].dims[d]) << op.name;
    }
    Bench other;
    EXPECT_THROW(add_row_call(other, op.id, call, QUERN_U8), Error) << op.name;
    EXPECT_TRUE(other.g.nodes().empty()) << op.name;
  }
}

TEST(Rules, EveryOpHasAnAcceptedAndARefusedCaseOrThoseOfItsRow) {
  std::set<std::uint32_t> accepted, refused;
  for (const RuleCase& one : all_cases()) (one.words.empty() ? accepted : refused).insert(one.op);
  for (const graph::OpInfo& op : graph::all_ops())
    if (!accepted.contains(op.id) || !refused.contains(op.id)) expect_the_rule_of_the_row(op);
}

TEST(Rules, RowsOfOneShapeHoldAsOpsMdHasThem) {
  for (const graph::OpInfo& op : graph::all_ops())
    if (op.group == "activation" && op.inputs.size() == 1) expect_the_rule_of_the_row(op);
  expect_the_rule_of_the_row(*graph::find_op("silu_backward"));
  expect_the_rule_of_the_row(*graph::find_op("get_rows"));
}

}  // namespace

Bench::Bench() : t(0), o(0) {
  t = Dim(16, g.add_symbol({.name = "tokens", .min = 1, .max = 16}));
  o = Dim(4, g.add_symbol({.name = "outputs", .min = 0, .max = 4}));
}

}  // namespace quern::test
