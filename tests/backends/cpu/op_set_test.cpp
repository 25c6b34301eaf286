// The plugin says yes to every op of OPS.md but the collectives, in every dtype that a row lists.
//
// A call is compiled, not run: what the ops compute is tested beside. An op that no list here has is called as its row of OPS.md says, so that
// a new op cannot be forgotten.
#include "harness.hpp"
#include "support/op_rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

namespace quern::cpu_test {
namespace {

struct Op {
  std::uint32_t id;
  const char* name;
};
constexpr Op ops[] = {
#define QUERN_OP(id, NAME, name, group, inputs, outputs, attributes, gradient) {id, #name},
#include "quern/ops.def"
#undef QUERN_OP
};

using Tensors = std::vector<Tensor>;
using Attributes = std::vector<Attribute>;

struct Call {
  std::uint32_t op;
  Tensors inputs, outputs;
  Attributes attributes = {};
};

const quern_dtype floats[] = {QUERN_F32, QUERN_F16, QUERN_BF16};
const quern_dtype blocks[] = {QUERN_Q8_0, QUERN_Q4_0, QUERN_Q4_1, QUERN_Q5_0, QUERN_Q5_1, QUERN_Q4_K, QUERN_Q5_K, QUERN_Q6_K};
std::vector<quern_dtype> all_dtypes() {
  std::vector<quern_dtype> all(std::begin(floats), std::end(floats));
  all.push_back(QUERN_I32);
  all.insert(all.end(), std::begin(blocks), std::end(blocks));
  return all;
}

Tensor f32(std::vector<std::int64_t> dims) { return make(QUERN_F32, std::move(dims)); }
Tensor i32(std::vector<std::int64_t> dims) { return make(QUERN_I32, std::move(dims)); }
Tensor u32(std::vector<std::int64_t> dims) { return make(QUERN_U32, std::move(dims)); }
Tensor state(quern_dtype dtype, std::vector<std::int64_t> dims) { return make(dtype, std::move(dims), QUERN_VALUE_STATE); }

void elementwise(quern_dtype t, std::vector<Call>& out) {
  const Tensor x = make(t, {2, 4, 8});
  for (const std::uint32_t op : {QUERN_OP_ADD, QUERN_OP_SUB, QUERN_OP_MUL, QUERN_OP_DIV}) {
    out.push_back({op, {x, x}, {x}});
    out.push_back({op, {x, make(t, {4, 1})}, {x}});
  }
  out.push_back({QUERN_OP_ADD, {x, x}, {x}, {{QUERN_KEY_ALPHA, -2}}});
  out.push_back({QUERN_OP_SCALE, {x}, {x}, {{QUERN_KEY_ALPHA, 2}, {QUERN_KEY_BETA, 1}}});
  out.push_back({QUERN_OP_CLAMP, {x}, {x}, {{QUERN_KEY_MIN, -1}, {QUERN_KEY_MAX, 1}}});
  for (const std::uint32_t op : {QUERN_OP_NEG, QUERN_OP_SQR, QUERN_OP_SQRT, QUERN_OP_ABS, QUERN_OP_CUMSUM, QUERN_OP_SILU, QUERN_OP_RELU,
                                 QUERN_OP_RELU_SQR, QUERN_OP_SIGMOID, QUERN_OP_TANH})
    out.push_back({op, {x}, {x}});
  for (const std::uint32_t op :
       {QUERN_OP_SILU_BACKWARD, QUERN_OP_RELU_BACKWARD, QUERN_OP_RELU_SQR_BACKWARD, QUERN_OP_SIGMOID_BACKWARD, QUERN_OP_TANH_BACKWARD})
    out.push_back({op, {x, x}, {x}});
  for (const double kind : {0, 1, 2}) {
    out.push_back({QUERN_OP_GELU, {x}, {x}, {{QUERN_KEY_KIND, kind}}});
    out.push_back({QUERN_OP_GELU_BACKWARD, {x, x}, {x}, {{QUERN_KEY_KIND, kind}}});
  }
  for (const double kind : {0, 1, 2, 3, 4}) {
    const Tensor half = make(t, {2, 4, 4});
    out.push_back({QUERN_OP_GLU, {x, x}, {x}, {{QUERN_KEY_KIND, kind}, {QUERN_KEY_LIMIT, 7}, {QUERN_KEY_ALPHA, 1.7}}});
    out.push_back({QUERN_OP_GLU, {x}, {half}, {{QUERN_KEY_KIND, kind}, {QUERN_KEY_SWAPPED, 1}}});
    out.push_back({QUERN_OP_GLU_BACKWARD, {x, x, x}, {x, x}, {{QUERN_KEY_KIND, kind}, {QUERN_KEY_LIMIT, 7}, {QUERN_KEY_ALPHA, 1.7}}});
    out.push_back({QUERN_OP_GLU_BACKWARD, {x, absent(), half}, {x}, {{QUERN_KEY_KIND, kind}, {QUERN_KEY_SWAPPED, 1}}});
  }
  out.push_back({QUERN_OP_FILL, {}, {x}, {{QUERN_KEY_VALUE, 3}}});
}

void copies(quern_dtype t, std::vector<Call>& out) {
  const Tensor x = make(t, {2, 3, 256});
  out.push_back({QUERN_OP_COPY, {x}, {x}});
  out.push_back({QUERN_OP_CONCAT, {x, x}, {make(t, {2, 6, 256})}, {{QUERN_KEY_AXIS, 1}}});
  for (const quern_dtype to : all_dtypes()) out.push_back({QUERN_OP_CAST, {x}, {make(to, {2, 3, 256})}});
  for (const quern_dtype index : {QUERN_I32, QUERN_I64})
    for (const quern_dtype to : floats)
      if (t != QUERN_I32) out.push_back({QUERN_OP_GET_ROWS, {make(t, {5, 256}), make(index, {3})}, {make(to, {3, 256})}});
}

void rows(quern_dtype t, std::vector<Call>& out) {
  const Tensor x = make(t, {2, 3, 32}), weight = f32({32});
  out.push_back(
      {QUERN_OP_PAD, {x}, {make(t, {2, 6, 32})}, {{QUERN_KEY_AXIS, 1}, {QUERN_KEY_BEFORE, 1}, {QUERN_KEY_AFTER, 2}, {QUERN_KEY_VALUE, 1}}});
  out.push_back({QUERN_OP_REPEAT, {make(t, {3, 16})}, {x}});
  out.push_back({QUERN_OP_SUM_TO, {x}, {make(t, {3, 16})}});
  for (const quern_dtype index : {QUERN_I32, QUERN_I64}) {
    for (const quern_dtype to : floats) out.push_back({QUERN_OP_TAKE, {make(t, {5, 32}), make(index, {3})}, {make(to, {5, 3})}});
    for (const quern_dtype table : {QUERN_F32, QUERN_F16, QUERN_BF16, QUERN_Q8_0, QUERN_Q4_0})
      out.push_back({QUERN_OP_SET_ROWS, {make(t, {3, 32}), make(index, {3})}, {state(table, {5, 32})}});
    out.push_back({QUERN_OP_INDEX_ADD, {make(t, {3, 32}), make(index, {3})}, {state(t, {5, 32})}});
    out.push_back({QUERN_OP_GET_ROWS_BACKWARD, {make(t, {3, 32}), make(index, {3})}, {state(t, {5, 32})}, {{QUERN_KEY_ACCUMULATE, 1}}});
  }
  const Attributes epsilon = {{QUERN_KEY_EPSILON, 1e-5}}, offset = {{QUERN_KEY_EPSILON, 1e-5}, {QUERN_KEY_WEIGHT_OFFSET, 1}};
  out.push_back({QUERN_OP_RMS_NORM, {x, weight}, {x}, offset});
  out.push_back({QUERN_OP_LAYER_NORM, {x, weight, weight}, {x}, epsilon});
  out.push_back({QUERN_OP_L2_NORM, {x}, {x}, epsilon});
  out.push_back({QUERN_OP_ADD_RMS_NORM, {x, x, weight}, {x, x}, offset});
  out.push_back({QUERN_OP_RMS_NORM_BACKWARD,
                 {x, weight, x},
                 {x, state(QUERN_F32, {32})},
                 {{QUERN_KEY_EPSILON, 1e-5}, {QUERN_KEY_WEIGHT_OFFSET, 1}, {QUERN_KEY_ACCUMULATE, 1}}});
  out.push_back({QUERN_OP_LAYER_NORM_BACKWARD,
                 {x, weight, x},
                 {x, state(QUERN_F32, {32}), state(QUERN_F32, {32})},
                 {{QUERN_KEY_EPSILON, 1e-5}, {QUERN_KEY_ACCUMULATE, 1}}});
  out.push_back({QUERN_OP_LAYER_NORM_BACKWARD, {x, absent(), x}, {x, absent(), f32({32})}, epsilon});
  out.push_back({QUERN_OP_L2_NORM_BACKWARD, {x, x}, {x}, epsilon});
  out.push_back({QUERN_OP_SOFTMAX_BACKWARD, {x, x}, {x}, {{QUERN_KEY_SCALE, 0.5}}});
  out.push_back({QUERN_OP_LOGSUMEXP, {x}, {make(t, {2, 3})}});
  out.push_back({QUERN_OP_MAX, {x}, {make(t, {2, 3})}});
  out.push_back({QUERN_OP_SUM_ROWS, {x}, {make(t, {2, 3, 1})}});
  for (const std::uint32_t op : {QUERN_OP_SUM, QUERN_OP_MEAN, QUERN_OP_NORM}) out.push_back({op, {x}, {make(t, {1})}});
  out.push_back({QUERN_OP_ARGMAX, {x}, {i32({2, 3})}});
  for (const double mode : {0, 1})
    out.push_back({QUERN_OP_ROPE,
                   {make(t, {3, 2, 32}), i32({3}), f32({9, 8, 2})},
                   {make(t, {3, 2, 32})},
                   {{QUERN_KEY_MODE, mode}, {QUERN_KEY_INVERSE, 1}}});
  out.push_back({QUERN_OP_ROPE,
                 {make(t, {3, 2, 32}), i32({4, 3}), f32({9, 8, 2})},
                 {make(t, {3, 2, 32})},
                 {{QUERN_KEY_SECTION0, 4}, {QUERN_KEY_SECTION1, 4}}});
  if (t != QUERN_BF16)
    for (const quern_dtype mask : {QUERN_F32, QUERN_F16})
      out.push_back({QUERN_OP_SOFTMAX,
                     {x, make(mask, {3, 32}), f32({2})},
                     {x},
                     {{QUERN_KEY_SCALE, 2},
                      {QUERN_KEY_CAUSAL, 1},
                      {QUERN_KEY_QUERY_OFFSET, 3},
                      {QUERN_KEY_WINDOW, 4},
                      {QUERN_KEY_MAX_BIAS, 8},
                      {QUERN_KEY_SOFTCAP, 30}}});
}

void products(quern_dtype t, std::vector<Call>& out) {
  for (const quern_dtype w : all_dtypes()) {
    if (w == QUERN_I32) continue;
    for (const quern_dtype y : floats) {
      out.push_back({QUERN_OP_MATMUL,
                     {make(t, {4, 2, 256}), make(w, {2, 3, 256}), f32({3}), make(y, {4, 2, 3})},
                     {make(y, {4, 2, 3})},
                     {{QUERN_KEY_ALPHA, 2}, {QUERN_KEY_BETA, 3}}});
      out.push_back({QUERN_OP_MATMUL_ID, {make(t, {4, 1, 256}), make(w, {5, 3, 256}), i32({4, 2})}, {make(y, {4, 2, 3})}});
    }
  }
  for (const quern_dtype w : floats)
    out.push_back(
        {QUERN_OP_MATMUL, {make(t, {8, 2}), make(w, {8, 3})}, {make(t, {2, 3})}, {{QUERN_KEY_TRANSPOSE_A, 1}, {QUERN_KEY_TRANSPOSE_B, 1}}});
  out.push_back({QUERN_OP_MATMUL_ID_BACKWARD,
                 {make(t, {4, 2, 3}), make(t, {4, 1, 8}), make(t, {5, 3, 8}), i32({4, 2})},
                 {make(t, {4, 1, 8}), state(t, {5, 3, 8})},
                 {{QUERN_KEY_ACCUMULATE, 1}}});
  out.push_back({QUERN_OP_MOE_COMBINE, {make(t, {4, 2, 8}), f32({4, 2})}, {make(t, {4, 8})}});
  for (const quern_dtype pool : floats) {
    out.push_back({QUERN_OP_LORA_MATMUL,
                   {make(t, {4, 8}), make(pool, {100}), i32({2, 4}), i32({4}), make(t, {4, 6})},
                   {make(t, {4, 6})},
                   {{QUERN_KEY_ALPHA, 2}}});
    out.push_back({QUERN_OP_LORA_MATMUL_BACKWARD,
                   {make(t, {4, 8}), make(pool, {100}), i32({2, 4}), i32({4}), make(t, {4, 6})},
                   {make(t, {4, 8}), state(pool, {100})},
                   {{QUERN_KEY_ALPHA, 2}, {QUERN_KEY_ACCUMULATE, 1}}});
  }
  out.push_back({QUERN_OP_LORA_MERGE, {make(t, {6, 8}), make(t, {2, 8}), make(t, {6, 2})}, {make(t, {6, 8})}, {{QUERN_KEY_ALPHA, 2}}});
  out.push_back({QUERN_OP_DROPOUT, {make(t, {6, 8}), u32({2}), i32({1})}, {make(t, {6, 8})}, {{QUERN_KEY_P, 0.5}, {QUERN_KEY_SALT, 3}}});
  out.push_back({QUERN_OP_CROSS_ENTROPY,
                 {make(t, {4, 9}), i32({4})},
                 {f32({4}), f32({4})},
                 {{QUERN_KEY_IGNORE, 0}, {QUERN_KEY_SMOOTHING, 0.1}, {QUERN_KEY_Z_LOSS, 1e-4}}});
  out.push_back({QUERN_OP_CROSS_ENTROPY_BACKWARD,
                 {make(t, {4, 9}), i32({4}), f32({4}), f32({4})},
                 {make(t, {4, 9})},
                 {{QUERN_KEY_IGNORE, 0}, {QUERN_KEY_SMOOTHING, 0.1}, {QUERN_KEY_Z_LOSS, 1e-4}}});
  out.push_back({QUERN_OP_GRAD_NORM, {make(t, {4, 9}), make(QUERN_F32, {3})}, {f32({1}), i32({1})}});
}

void attention(quern_dtype t, std::vector<Call>& out) {
  const Attributes how = {
      {QUERN_KEY_SCALE, 0.2}, {QUERN_KEY_CAUSAL, 1}, {QUERN_KEY_WINDOW, 5}, {QUERN_KEY_SOFTCAP, 30}, {QUERN_KEY_MAX_BIAS, 8}};
  Attributes dense = how;
  dense.push_back({QUERN_KEY_QUERY_OFFSET, 2});
  for (const quern_dtype c : {QUERN_F32, QUERN_F16, QUERN_BF16, QUERN_Q8_0, QUERN_Q4_0}) {
    out.push_back({QUERN_OP_KV_WRITE, {make(t, {3, 2, 32}), i32({2, 4}), i32({3}), i32({3})}, {state(c, {9, 2, 16, 32})}});
    for (const quern_dtype mask : {QUERN_F32, QUERN_F16, QUERN_U8})
      out.push_back({QUERN_OP_ATTENTION,
                     {make(t, {3, 4, 32}), state(c, {9, 2, 16, 32}), state(c, {9, 2, 16, 32}), i32({2, 4}), i32({3}), i32({3}), i32({2}),
                      make(mask, {3, 64}), f32({4})},
                     {make(t, {3, 4, 32})},
                     how});
    out.push_back({QUERN_OP_KV_COPY, {state(c, {9, 2, 16, 32}), i32({2}), i32({2})}, {state(c, {9, 2, 16, 32})}});
    out.push_back({QUERN_OP_KV_MOVE, {state(c, {9, 2, 16, 32}), i32({2, 4}), i32({2}), i32({2}), i32({2})}, {state(c, {9, 2, 16, 32})}});
  }
  const Tensor q = make(t, {2, 3, 4, 8}), k = make(t, {2, 5, 2, 8}), v = make(t, {2, 5, 2, 6}), y = make(t, {2, 3, 4, 6}),
               lse = f32({2, 3, 4}), mask = make(t, {4, 3, 5}), sinks = f32({4});
  out.push_back({QUERN_OP_ATTENTION_DENSE, {q, k, v, mask, sinks}, {y, lse}, dense});
  out.push_back({QUERN_OP_ATTENTION_BACKWARD, {q, k, v, y, lse, y, mask, sinks}, {q, k, v}, dense});
  const Tensor rows = make(t, {5, 4, 8}), keys = make(t, {5, 2, 8}), values = make(t, {5, 2, 6}), made = make(t, {5, 4, 6}),
               sums = f32({5, 4}), start = i32({3});
  Attributes ragged = how;
  ragged.pop_back();  // it has no max_bias
  out.push_back({QUERN_OP_ATTENTION_RAGGED, {rows, keys, values, start}, {made, sums}, ragged});
  out.push_back({QUERN_OP_ATTENTION_RAGGED_BACKWARD, {rows, keys, values, start, made, sums, made}, {rows, keys, values}, ragged});
}

void single(std::vector<Call>& out) {
  out.push_back({QUERN_OP_FILL, {}, {i32({3})}, {{QUERN_KEY_VALUE, 3}}});
  out.push_back({QUERN_OP_MASKED_MEAN, {f32({4}), i32({4})}, {f32({1}), f32({1})}});
  out.push_back({QUERN_OP_MASKED_MEAN_BACKWARD, {i32({4}), f32({1}), f32({1})}, {f32({4})}});
  out.push_back({QUERN_OP_CLIP_SCALE, {f32({1}), f32({1})}, {f32({1})}, {{QUERN_KEY_MAX_NORM, 1}}});
  for (const quern_dtype w : {QUERN_F32, QUERN_BF16}) {
    out.push_back({QUERN_OP_ADAMW,
                   {f32({3, 4}), i32({1}), f32({1}), f32({1})},
                   {state(w, {3, 4}), state(QUERN_F32, {3, 4}), state(QUERN_F32, {3, 4}), state(QUERN_F32, {3, 4})},
                   {{QUERN_KEY_BETA1, 0.8}, {QUERN_KEY_BETA2, 0.95}, {QUERN_KEY_EPSILON, 1e-6}, {QUERN_KEY_WEIGHT_DECAY, 0.1}}});
    out.push_back({QUERN_OP_SGD,
                   {make(w, {3, 4}), f32({1}), f32({1})},
                   {state(w, {3, 4}), state(w, {3, 4})},
                   {{QUERN_KEY_MOMENTUM, 0.9}, {QUERN_KEY_WEIGHT_DECAY, 0.1}}});
  }
  for (const double scaling : {0, 1, 2, 3, 4, 5})
    out.push_back({QUERN_OP_ROPE_TABLE,
                   {i32({1}), f32({4})},
                   {f32({9, 4, 2})},
                   {{QUERN_KEY_SCALING, scaling}, {QUERN_KEY_FACTOR, 4}, {QUERN_KEY_ORIGINAL_CONTEXT, 2048}, {QUERN_KEY_FIRST, 7}}});
  for (const double kind : {0, 1}) {
    const Attributes how = {{QUERN_KEY_USED, 2}, {QUERN_KEY_KIND, kind}, {QUERN_KEY_RENORMALISE, 0}, {QUERN_KEY_SCALE, 2.5}};
    out.push_back({QUERN_OP_MOE_ROUTER, {f32({3, 8}), f32({8})}, {i32({3, 2}), f32({3, 2})}, how});
    out.push_back({QUERN_OP_MOE_ROUTER_BACKWARD, {f32({3, 8}), f32({8}), i32({3, 2}), f32({3, 2})}, {f32({3, 8})}, how});
  }
  const Tensor x = f32({2, 9});
  out.push_back({QUERN_OP_TOP_K, {x}, {f32({2, 3}), i32({2, 3})}, {{QUERN_KEY_K, 3}}});
  out.push_back({QUERN_OP_SORT, {x}, {x, i32({2, 9})}, {{QUERN_KEY_DESCENDING, 0}}});
  out.push_back({QUERN_OP_PENALIZE, {x, i32({2, 5}), i32({2}), f32({2, 8})}, {x}});
  out.push_back({QUERN_OP_LOGIT_BIAS, {x, i32({2, 3}), f32({2, 3})}, {x}});
  out.push_back({QUERN_OP_TOP_P_MASK, {x, f32({2})}, {x}});
  out.push_back({QUERN_OP_MIN_P_MASK, {x, f32({2})}, {x}});
  out.push_back({QUERN_OP_TOP_K_MASK, {x, i32({2})}, {x}});
  out.push_back({QUERN_OP_SAMPLE, {x, f32({2, 8}), u32({2, 2}), i32({2})}, {i32({2}), f32({2})}});
  out.push_back({QUERN_OP_RANDOM_UNIFORM, {u32({2}), i32({1})}, {x}, {{QUERN_KEY_SALT, 2}}});
  out.push_back({QUERN_OP_SPEC_ACCEPT, {i32({2, 3}), i32({2, 4}), i32({2})}, {i32({2, 4}), i32({2})}});
  out.push_back({QUERN_OP_TOKEN_PUBLISH, {i32({2}), state(QUERN_I32, {1})}, {state(QUERN_I32, {4, 2})}});
  out.push_back({QUERN_OP_COUNT_EQUAL, {i32({2, 9}), i32({2, 9})}, {make(QUERN_I64, {1})}});
}

std::vector<Call> calls() {
  std::vector<Call> all;
  for (const quern_dtype t : floats) {
    elementwise(t, all);
    rows(t, all);
    products(t, all);
    attention(t, all);
  }
  for (const quern_dtype t : all_dtypes()) copies(t, all);
  single(all);
  return all;
}

std::string describe(const Call& call) {
  std::string text;
  for (const Op& op : ops)
    if (op.id == call.op) text = op.name;
  for (const auto& [tensors, arrow] : {std::pair{&call.inputs, " "}, std::pair{&call.outputs, " -> "}})
    for (const Tensor& t : *tensors) {
      text += arrow + std::to_string(t.dtype) + "[";
      for (const std::int64_t d : t.dims) text += std::to_string(d) + " ";
      text += "]";
    }
  return text;
}

/// The text of a refusal; empty: yes.
std::string refusal(Plugin& plugin, const Call& call) {
  GraphSpec graph;
  NodeSpec node{call.op, {}, {}, call.attributes};
  for (const Tensor& t : call.inputs) node.inputs.push_back(t.dtype == QUERN_DTYPE_NONE ? QUERN_NONE : graph.add(t));
  for (const Tensor& t : call.outputs) {
    node.outputs.push_back(t.dtype == QUERN_DTYPE_NONE ? QUERN_NONE : graph.add(t));
    if (t.dtype != QUERN_DTYPE_NONE && graph.values.back().kind == QUERN_VALUE_INPUT) graph.values.back().kind = QUERN_VALUE_OUTPUT;
  }
  graph.nodes.push_back(node);
  quern_plan* plan = nullptr;
  const Outcome outcome = plugin.compile(graph, &plan);
  if (plan != nullptr) plugin.api().plan_destroy(plan, nullptr);
  return outcome.status == QUERN_OK ? "" : outcome.text.empty() ? "no reason" : outcome.text;
}

/// The calls of OPS.md, as this test has them.
std::vector<Call> calls_of_row(std::uint32_t op) {
  std::vector<Call> found;
  for (const test::RowCall& row : test::row_calls(QUERN_SOURCE_DIR "/plugin-api/OPS.md", op)) {
    if (!test::row_is_whole(row)) continue;
    Call call{op, {}, {}};
    for (const test::RowOperand& operand : row.inputs) call.inputs.push_back(make(operand.dtype, operand.dims));
    for (const test::RowOperand& operand : row.outputs) call.outputs.push_back(make(operand.dtype, operand.dims));
    found.push_back(std::move(call));
  }
  return found;
}

TEST(OpSet, EveryOpInEveryDtypeOfItsRowIsAccepted) {
  Plugin plugin;
  for (const Call& call : calls()) EXPECT_EQ(refusal(plugin, call), "") << describe(call);
}

TEST(OpSet, CallsAsOpsMdHasThemAreAccepted) {
  Plugin plugin;
  for (const std::uint32_t op : {QUERN_OP_SILU, QUERN_OP_TANH, QUERN_OP_RELU_BACKWARD, QUERN_OP_COPY}) {
    const std::vector<Call> of_row = calls_of_row(op);
    EXPECT_GE(of_row.size(), 3u) << op;  // a call for each dtype
    for (const Call& call : of_row) EXPECT_EQ(refusal(plugin, call), "") << describe(call);
  }
}

/// The calls that have one dimension more in one operand.
std::vector<Call> with_another_rank(const Call& call) {
  std::vector<Call> changed;
  for (const bool output : {false, true})
    for (std::size_t i = 0; i < (output ? call.outputs : call.inputs).size(); ++i) {
      changed.push_back(call);
      Tensor& operand = (output ? changed.back().outputs : changed.back().inputs)[i];
      operand.dims.insert(operand.dims.begin(), 7);
      if (operand.dtype == QUERN_DTYPE_NONE || operand.dims.size() > QUERN_MAX_DIMS) changed.pop_back();
    }
  return changed;
}

TEST(OpSet, AnOperandOfAnotherRankIsRefusedByTheFormOfItsOp) {
  Plugin plugin;
  std::set<std::uint32_t> called, refused;
  for (const Call& call : calls()) {
    if (!called.insert(call.op).second) continue;
    const auto* op = std::ranges::find(ops, call.op, &Op::id);
    for (const Call& other : with_another_rank(call))
      if (refusal(plugin, other).starts_with("node 0: " + std::string(op->name) + ": ")) refused.insert(call.op);
  }
  called.erase(QUERN_OP_FILL);  // its one operand has any shape
  EXPECT_EQ(refused, called);
}

TEST(OpSet, EveryOpOfTheSetIsCalledAndCollectivesAreRefusedWithAReason) {
  Plugin plugin;
  std::set<std::uint32_t> called;
  for (const Call& call : calls()) called.insert(call.op);
  const std::set<std::string> collectives = {"all_reduce", "all_gather", "reduce_scatter", "broadcast"};
  for (const Op& op : ops) {
    if (!collectives.contains(op.name)) {
      if (called.contains(op.id)) continue;
      const std::vector<Call> of_row = calls_of_row(op.id);
      EXPECT_FALSE(of_row.empty()) << op.name << ": its row alone does not say what it takes; it needs calls here";
      for (const Call& call : of_row) EXPECT_EQ(refusal(plugin, call), "") << describe(call);
      continue;
    }
    EXPECT_NE(refusal(plugin, {op.id, {f32({4})}, {f32({4})}}).find(std::string("this plugin has no ") + op.name), std::string::npos)
        << op.name;
  }
}

}  // namespace
}  // namespace quern::cpu_test
