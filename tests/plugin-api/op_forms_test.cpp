// The form of a call, which the SDK checks before it asks a plugin: what is refused, in which words and with which code.
//
// That each legal call of each op passes is tested where plugins say yes to all of them (tests/backends/cpu/op_set_test.cpp).
#include "quern/quern_device_plugin.hpp"

#include "test_host.hpp"

#include <gtest/gtest.h>

#include <set>

namespace {

namespace sdk = quern::sdk;
using namespace quern_test;

/// Runs any call, so that every refusal is the SDK's.
class AnyCall : public sdk::Offers {
 public:
  const sdk::OpOffer* find(std::uint32_t) const override {
    static const sdk::OpOffer offer{0, "any.test", [](const sdk::Call&) { return std::string(); }, true};
    return &offer;
  }
};

struct Operand {
  std::vector<std::int64_t> dims;
  quern_dtype dtype = QUERN_F32;
};
struct Case {
  std::uint32_t op;
  std::vector<Operand> inputs, outputs;
  std::vector<quern_attribute> attributes;
  std::string words;  // of the refusal; empty: it runs
  quern_status code = QUERN_INVALID_ARGUMENT;
};

sdk::ResolvedNode judged(const Case& one, std::uint32_t ranged = QUERN_NONE) {
  GraphBuilder g;
  std::vector<std::uint32_t> inputs, outputs;
  for (const Operand& o : one.inputs)
    inputs.push_back(o.dtype == QUERN_DTYPE_NONE ? QUERN_NONE : g.value(QUERN_VALUE_INPUT, o.dims, o.dtype));
  for (const Operand& o : one.outputs) outputs.push_back(g.value(QUERN_VALUE_STATE, o.dims, o.dtype));
  for (quern_value& value : g.values) {
    value.name = {};
    if (const quern_format* format = sdk::find_format(value.dtype)) {
      value.uses |= QUERN_VALUE_USES_FORMAT;
      value.format_hash = format->hash;
    }
  }
  if (ranged != QUERN_NONE) g.range(ranged, g.values[ranged].rank - 1, 1);
  g.node(one.op, inputs, outputs, one.attributes);
  const AnyCall offers;
  sdk::ResolvedGraph graph(g.get(), offers);
  return std::move(graph.nodes[0]);
}

const Operand none{{}, QUERN_DTYPE_NONE};

TEST(OpForms, RefuseInOneSentenceWhatNoBackendTakes) {
  const auto epsilon = real(QUERN_KEY_EPSILON, 1e-5);
  const Case cases[] = {
      {QUERN_OP_RMS_NORM, {{{2, 4}}, {{4}}}, {{{2, 4}}}, {epsilon}, ""},
      {QUERN_OP_RMS_NORM, {{{2, 4}}, none}, {{{2, 4}}}, {epsilon}, ""},
      {QUERN_OP_RMS_NORM, {{{2, 4}}, {{5}}}, {{{2, 4}}}, {epsilon}, "rms_norm: weight is [5] f32; it is [h] with h = 4"},
      {QUERN_OP_RMS_NORM, {{{2, 4}}, {{1, 4}}}, {{{2, 4}}}, {epsilon}, "rms_norm: weight is [1, 4] f32; it is [h]"},
      {QUERN_OP_RMS_NORM, {{{}}, none}, {{{}}}, {epsilon}, "rms_norm: x is [] f32; it is [..,h]"},
      {QUERN_OP_RMS_NORM, {{{2, 4}}, none}, {{{2, 5}}}, {epsilon}, "rms_norm: y is [2, 5] f32 and x is [2, 4] f32; they have one shape"},
      {QUERN_OP_RMS_NORM,
       {{{2, 4}}, {{4}, QUERN_F16}},
       {{{2, 4}}},
       {epsilon},
       "rms_norm: weight is [4] f16; f32 is taken",
       QUERN_UNSUPPORTED},
      {QUERN_OP_RMS_NORM,
       {{{2, 4}}, none},
       {{{2, 4}, QUERN_I32}},
       {epsilon},
       "rms_norm: y is [2, 4] i32; f32, f16 or bf16 is taken",
       QUERN_UNSUPPORTED},
      {QUERN_OP_RMS_NORM, {{{2, 4}}, none}, {{{2, 4}}}, {real(QUERN_KEY_EPSILON, 1e-60)}, "rms_norm: epsilon is 1e-60; it is above 0"},
      {QUERN_OP_SCALE, {{{2}}}, {{{2}}}, {real(QUERN_KEY_ALPHA, NAN)}, "scale: the attribute alpha is not a number"},
      {QUERN_OP_ADD, {{{2, 4}}, {{3}}}, {{{2, 4}}}, {}, "add: b is [3] f32 and a is [2, 4] f32; b broadcasts to a"},
      {QUERN_OP_COPY, {{{2}}}, {{{2}, QUERN_F16}}, {}, "copy: y is [2] f16; it has the dtype of x", QUERN_UNSUPPORTED},
      {QUERN_OP_ADD_RMS_NORM,
       {{{2, 4}}, {{3, 4}}, {{4}}},
       {{{2, 4}}, {{2, 4}}},
       {epsilon},
       "add_rms_norm: b is [3, 4] f32; it is [..,h] with h = 4, .. as in a"},
      {QUERN_OP_MATMUL_ID, {{{3, 2, 4}}, {{5, 6, 4}}, {{3, 2}, QUERN_I32}}, {{{3, 2, 6}}}, {}, ""},
      {QUERN_OP_MATMUL_ID, {{{3, 1, 4}}, {{5, 6, 4}}, {{3, 2}, QUERN_I32}}, {{{3, 2, 6}}}, {}, ""},
      {QUERN_OP_MATMUL_ID,
       {{{3, 4, 4}}, {{5, 6, 4}}, {{3, 2}, QUERN_I32}},
       {{{3, 2, 6}}},
       {},
       "matmul_id: a is [3, 4, 4] f32; it is [t,used|1,k] with t = 3, used = 2, k = 4"},
      {QUERN_OP_ATTENTION_RAGGED,
       {{{3, 2, 8}}, {{3, 1, 8}}, {{3, 1, 8}}, {{0}, QUERN_I32}},
       {{{3, 2, 8}}},
       {real(QUERN_KEY_SCALE, 1)},
       "attention_ragged: start is [0] i32; it is [s+1], and s is 0 or more"},
      {QUERN_OP_SPEC_ACCEPT,
       {{{2, 3}, QUERN_I32}, {{2, 3}, QUERN_I32}, {{2}, QUERN_I32}},
       {{{2, 4}, QUERN_I32}, {{2}, QUERN_I32}},
       {},
       "spec_accept: target is [2, 3] i32; it is [s,k+1] with s = 2, k = 3"},
      {QUERN_OP_TOP_K, {{{2, 9}}}, {{{2, 4}}, {{2, 4}, QUERN_I32}}, {integer(QUERN_KEY_K, 4)}, ""},
      {QUERN_OP_TOP_K,
       {{{2, 9}}},
       {{{2, 5}}, {{2, 4}, QUERN_I32}},
       {integer(QUERN_KEY_K, 4)},
       "top_k: value is [2, 5] f32; it is [..,k] with k = 4, .. as in x"},
      {QUERN_OP_TOP_K,
       {{{2, 9}}},
       {{{2, 10}}, {{2, 10}, QUERN_I32}},
       {integer(QUERN_KEY_K, 10)},
       "top_k: k is 10 and n is 9; it is at most n"},
      {QUERN_OP_ROPE_TABLE, {none, {{6}}}, {{{9, 5, 2}}}, {}, "rope_table: table is [9, 5, 2] f32; it is [n,d/2,2] with n = 9, d = 12"},
      {QUERN_OP_RMS_NORM_BACKWARD,
       {{{2, 4}}, none, {{2, 4}}},
       {{{2, 4}}, {{4}}},
       {epsilon},
       "rms_norm_backward: dweight is wanted but there is no weight"},
      {QUERN_OP_MATMUL, {{{2, 3}}, {{5, 4}}}, {{{2, 5}}}, {}, "matmul: a is [2, 3] f32 and b is [5, 4] f32; they have one k"},
      {QUERN_OP_MATMUL,
       {{{4, 2, 3}}, {{3, 5, 3}}},
       {{{4, 2, 5}}},
       {},
       "matmul: a is [4, 2, 3] f32 and b is [3, 5, 3] f32; leading dimensions of b divide those of a"},
      {QUERN_OP_GLU, {{{2, 8}}}, {{{2, 4}}}, {}, ""},
      {QUERN_OP_GLU, {{{2, 8}}}, {{{2, 4}}}, {integer(QUERN_KEY_KIND, 5)}, "glu: kind is 5; it is at most 4", QUERN_UNSUPPORTED},
      {QUERN_OP_GLU, {{{2, 9}}}, {{{2, 4}}}, {}, "glu: gate is [2, 9] f32 and y is [2, 4] f32; without up a row of gate holds two of them"},
      {QUERN_OP_CONCAT,
       {{{2, 4}}, {{2, 3}}},
       {{{2, 8}}},
       {integer(QUERN_KEY_AXIS, 1)},
       "concat: y is [2, 8] f32 and its inputs have 7 elements along axis 1"},
      {QUERN_OP_ADAMW,
       {{{2}}, {{1}, QUERN_I32}, {{1}}},
       {{{2}}, {{2}}, {{2}}},
       {real(QUERN_KEY_BETA1, 1)},
       "adamw: beta1 is 1; it is below 1"},
      {QUERN_OP_SGD, {{{2}}, {{1}}}, {{{2}}}, {real(QUERN_KEY_MOMENTUM, 0.5)}, "sgd: momentum is 0.500000, which needs the state momentum"},
  };
  for (const Case& one : cases) {
    const sdk::ResolvedNode node = judged(one);
    EXPECT_EQ(node.refusal, one.words);
    EXPECT_EQ(node.malformed, !one.words.empty()) << one.words;
    if (!one.words.empty()) { EXPECT_EQ(node.choice.code, one.code) << one.words; }
  }
}

TEST(OpForms, ASizeThatIsFixedIsNotRanged) {
  const Case top_k{QUERN_OP_TOP_K, {{{2, 9}}}, {{{2, 4}}, {{2, 4}, QUERN_I32}}, {integer(QUERN_KEY_K, 4)}, {}};
  EXPECT_EQ(judged(top_k, 0).refusal, "top_k: x is [2, up to 9] f32; its n is fixed");
  const Case sum{QUERN_OP_SUM, {{{9}}}, {{{1}}}, {}, {}};
  EXPECT_EQ(judged(sum, 0).refusal, "") << "a sum takes rows of any length";
  EXPECT_EQ(judged(sum, 1).refusal, "sum: y is [up to 1] f32; its 1 is fixed");
}

TEST(OpForms, EveryOpHasOne) {
  std::set<std::uint32_t> with;
  for (const sdk::FormRow& row : sdk::form_rows) EXPECT_TRUE(with.insert(row.op).second) << row.op;
  for (const sdk::OpRow& row : sdk::op_rows) EXPECT_EQ(with.count(row.id), 1u) << row.name;
}

}  // namespace
