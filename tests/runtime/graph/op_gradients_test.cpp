// The gradient of each op, by central differences: in f32 and 16 bits, as a new value and added to state.
#include "gradient_bench.hpp"

#include "quern/graph/op_info.hpp"

#include <bit>
#include <functional>
#include <set>

namespace quern::test {
namespace {

struct OpCase {
  const char* name;
  std::function<void(GradientBench&)> build;
};

using B = GradientBench;

std::int64_t scale_bits(float scale) { return std::bit_cast<std::int32_t>(scale); }

/// The four layouts of a product of [m, k] and [n, k] behind `lead_a` and `lead_b`.
void product(B& b, Shape lead_a, Shape lead_b, bool transpose_a, bool transpose_b) {
  const auto operand = [&](Shape lead, Dim rows, Dim columns, bool turned) {
    lead.push_back(turned ? columns : rows), lead.push_back(turned ? rows : columns);
    return b.x(std::move(lead));
  };
  const ValueId x = operand(std::move(lead_a), 3, 4, transpose_a), w = operand(std::move(lead_b), 2, 4, transpose_b);
  b.loss(ops::matmul(b.g, x, w, no_value, no_value, {.transpose_a = transpose_a, .transpose_b = transpose_b, .alpha = 0.5}));
}

const std::vector<OpCase>& cases() {
  static const std::vector<OpCase> all = {
      {"Add",
       [](B& b) {
         b.loss(ops::add(b.g, b.x({b.tokens, 3}), b.x({b.tokens, 3}), 0.5));
       }},
      {"AddBroadcasts",
       [](B& b) {
         b.loss(ops::add(b.g, ops::add(b.g, b.x({b.tokens, 2, 3}), b.x({3}), -2), b.x({2, 1})));
       }},
      {"Sub",
       [](B& b) {
         b.loss(ops::sub(b.g, b.x({b.tokens, 3}), b.x({3})));
       }},
      {"Mul",
       [](B& b) {
         b.loss(ops::mul(b.g, b.x({b.tokens, 3}), b.x({b.tokens, 1})));
       }},
      {"MulOfOneValue",
       [](B& b) {
         const ValueId x = b.x({3});
         b.loss(ops::mul(b.g, x, x));
       }},
      {"Div",
       [](B& b) {
         b.loss(ops::div(b.g, b.x({b.tokens, 3}), b.x({3}, 1, 2)));
       }},
      {"Scale", [](B& b) { b.loss(ops::scale(b.g, b.x({b.tokens}), -3, 2)); }},
      {"Neg", [](B& b) { b.loss(ops::neg(b.g, b.x({4}))); }},
      {"Sqr", [](B& b) { b.loss(ops::sqr(b.g, b.x({4}))); }},
      {"Sqrt", [](B& b) { b.loss(ops::sqrt(b.g, b.x({4}, 1, 2))); }},
      {"Abs",
       [](B& b) {
         b.loss(ops::abs(b.g, b.x({b.tokens, 4})));
       }},
      {"Clamp",
       [](B& b) {
         b.loss(ops::clamp(b.g, b.x({b.tokens, 4}), -0.5, 0.25));
       }},
      {"ClampOnOneSide",
       [](B& b) {
         b.loss(ops::clamp(b.g, b.x({b.tokens, 4}), -INFINITY, 0.25));
       }},
      {"Cumsum",
       [](B& b) {
         b.loss(ops::cumsum(b.g, b.x({b.tokens, 4})));
       }},
      {"Silu",
       [](B& b) {
         b.loss(ops::silu(b.g, b.x({b.tokens, 2}, -3, 3)));
       }},
      {"GeluErf", [](B& b) { b.loss(ops::gelu(b.g, b.x({6}, -3, 3), 0)); }},
      {"GeluTanh", [](B& b) { b.loss(ops::gelu(b.g, b.x({6}, -3, 3), 1)); }},
      {"GeluQuick", [](B& b) { b.loss(ops::gelu(b.g, b.x({6}, -3, 3), 2)); }},
      {"Relu", [](B& b) { b.loss(ops::relu(b.g, b.x({6}))); }},
      {"ReluSqr", [](B& b) { b.loss(ops::relu_sqr(b.g, b.x({6}))); }},
      {"Sigmoid", [](B& b) { b.loss(ops::sigmoid(b.g, b.x({6}))); }},
      {"Tanh", [](B& b) { b.loss(ops::tanh(b.g, b.x({6}))); }},
      {"Glu",
       [](B& b) {
         for (const std::int64_t kind : {0, 1, 2, 3, 4}) b.loss(ops::glu(b.g, b.x({b.tokens, 3}), b.x({b.tokens, 3}), {.kind = kind}));
       }},
      {"GluPacked",
       [](B& b) {
         b.loss(ops::glu(b.g, b.x({b.tokens, 6}), no_value, {.swapped = true, .alpha = 1.5, .limit = 0.7}));
       }},
      {"GluOfAFrozenGate", [](B& b) { b.loss(ops::glu(b.g, b.frozen(b.activations, {4}), b.x({4}))); }},
      {"Copy",
       [](B& b) {
         b.loss(ops::copy(b.g, b.x({b.tokens, 3})));
       }},
      {"CastDown",
       [](B& b) {
         b.loss(ops::cast(b.g, b.f32({b.tokens, 3}), QUERN_BF16));
       }},
      {"CastUp",
       [](B& b) {
         b.loss(ops::cast(b.g, b.x({b.tokens, 3}), QUERN_F32));
       }},
      {"Concat",
       [](B& b) {
         b.loss(ops::concat(b.g, {b.x({b.tokens, 2}), b.frozen(b.activations, {b.tokens, 1}), b.x({b.tokens, 3})}, 1));
         b.loss(ops::concat(b.g, {b.x({2, 3}), b.x({1, 3})}, 0));
       }},
      {"Pad",
       [](B& b) {
         b.loss(ops::pad(b.g, b.x({b.tokens, 3, 2}), {.axis = 1, .before = 1, .after = 2, .value = 7}));
       }},
      {"Repeat",
       [](B& b) {
         b.loss(ops::repeat(b.g, b.x({2, 1}), {b.tokens, 4, 3}));
       }},
      {"SumTo",
       [](B& b) {
         b.loss(ops::sum_to(b.g, b.x({b.tokens, 4, 3}), {2, 1}));
       }},
      {"GetRows",
       [](B& b) {
         b.loss(ops::get_rows(b.g, b.x({6, 3}), b.i32({b.tokens}, {4, 0, 4, 5, 1})));
       }},
      {"GetRowsOfARangedTable",
       [](B& b) {
         b.loss(ops::get_rows(b.g, b.x({b.tokens, 3}), b.i32({3}, {4, 0, 4})));
       }},
      {"SetRows",
       [](B& b) {
         b.loss(ops::set_rows(b.g, b.x({3, 2}), b.i32({3}, {4, 0, 2}), b.state(b.activations, {6, 2})));
       }},
      {"IndexAdd",
       [](B& b) {
         b.loss(ops::index_add(b.g, b.x({3, 2}), b.i32({3}, {4, 0, 2}), b.state(b.activations, {6, 2})));
       }},
      {"RmsNorm",
       [](B& b) {
         b.loss(ops::rms_norm(b.g, b.x({b.tokens, 4}), b.f32({4}), {.epsilon = 0.01, .weight_offset = 1}));
       }},
      {"RmsNormWithoutWeight",
       [](B& b) {
         b.loss(ops::rms_norm(b.g, b.x({b.tokens, 4}), no_value, {.epsilon = 0.01}));
       }},
      {"RmsNormOfAFrozenWeight",
       [](B& b) {
         b.loss(ops::rms_norm(b.g, b.x({b.tokens, 4}), b.constant(QUERN_F32, {4}), {.epsilon = 0.01}));
       }},
      {"RmsNormOfAFrozenInput",
       [](B& b) {
         b.loss(ops::rms_norm(b.g, b.frozen(b.activations, {b.tokens, 4}), b.f32({4}), {.epsilon = 0.01}));
       }},
      {"LayerNorm",
       [](B& b) {
         b.loss(ops::layer_norm(b.g, b.x({b.tokens, 4}), b.f32({4}), b.f32({4}), 0.01));
       }},
      {"LayerNormOfABias",
       [](B& b) {
         b.loss(ops::layer_norm(b.g, b.x({b.tokens, 4}), b.constant(QUERN_F32, {4}), b.f32({4}), 0.01));
       }},
      {"LayerNormWithoutVectors",
       [](B& b) {
         b.loss(ops::layer_norm(b.g, b.x({b.tokens, 4}), no_value, no_value, 0.01));
       }},
      {"L2Norm",
       [](B& b) {
         b.loss(ops::l2_norm(b.g, b.x({b.tokens, 4}), 1e-6));
       }},
      {"AddRmsNorm",
       [](B& b) {
         const auto both =
             ops::add_rms_norm(b.g, b.x({b.tokens, 4}), b.x({b.tokens, 4}), b.f32({4}), {.epsilon = 0.01, .weight_offset = 1});
         b.loss(both.y), b.loss(both.sum);
       }},
      {"AddRmsNormOfTheNormAlone",
       [](B& b) {
         b.loss(ops::add_rms_norm(b.g, b.x({b.tokens, 4}), b.x({b.tokens, 4}), b.constant(QUERN_F32, {4}), {.epsilon = 0.01}).y);
       }},
      {"Softmax",
       [](B& b) {
         b.loss(ops::softmax(b.g, b.x({2, 3, 4}), b.frozen(b.activations, {3, 4}), b.constant(QUERN_F32, {2}),
                             {.scale = 1.5, .causal = true, .query_offset = 1, .window = 3, .max_bias = 2}));
       }},
      {"SoftmaxWithASoftcap",
       [](B& b) {
         b.loss(ops::softmax(b.g, b.x({b.tokens, 4}), no_value, no_value, {.scale = 2, .softcap = 1.5}));
       }},
      {"Logsumexp",
       [](B& b) {
         b.loss(ops::logsumexp(b.g, b.x({b.tokens, 4})));
       }},
      {"Rope",
       [](B& b) {
         const ValueId table = ops::rope_table(b.g, {8, 2, 2}, no_value, no_value, {.base = 10, .mscale = 1.25});
         const ValueId position = b.i32({b.tokens}, {0, 1, 2, 5, 7});
         b.loss(ops::rope(b.g, b.x({b.tokens, 2, 5}), position, table, {.mode = 0}));
         b.loss(ops::rope(b.g, b.x({b.tokens, 2, 5}), position, table, {.mode = 1, .inverse = true, .sections = {}}));
       }},
      {"Matmul",
       [](B& b) {
         const ValueId x = b.x({b.tokens, 4}), w = b.x({3, 4});
         b.loss(ops::matmul(b.g, x, w, b.f32({3}), b.x({b.tokens, 3}), {.alpha = 0.5, .beta = -2}));
       }},
      {"MatmulOfRowsInBatches",
       [](B& b) {
         b.loss(ops::matmul(b.g, b.x({1, b.tokens, 4}), b.x({3, 4})));
       }},
      {"MatmulIntoF32",
       [](B& b) {
         b.loss(ops::matmul(b.g, b.x({b.tokens, 4}), b.x({3, 4}), no_value, no_value, {}, {.output_dtype = QUERN_F32}));
       }},
      {"MatmulOfRangedColumns",
       [](B& b) {
         b.loss(ops::matmul(b.g, b.x({b.tokens, 2}), b.x({b.tokens, 3}), no_value, no_value, {.transpose_a = true, .transpose_b = true}));
       }},
      {"MatmulOfSlices",
       [](B& b) {
         // The adapters of two matrices, joined in their first product.
         const ValueId joined = ops::matmul(b.g, b.x({b.tokens, 4}), b.x({4, 4}));
         const auto size = graph::block_size(b.activations).bytes;
         for (const std::int64_t i : {0, 1}) {
           const ValueId u = b.g.view(joined, {b.tokens, 2}, {4 * size, size}, static_cast<std::uint64_t>(2 * i * size));
           b.loss(ops::matmul(b.g, u, b.x({3, 2})));
         }
       }},
      {"MatmulTransposes",
       [](B& b) {
         for (const bool a : {false, true})
           for (const bool w : {false, true}) product(b, {}, {}, a, w);
       }},
      {"MatmulOfOneMatrixForBatches",
       [](B& b) {
         for (const bool a : {false, true})
           for (const bool w : {false, true}) product(b, {2, 3}, {}, a, w);
       }},
      {"MatmulOfGroups",
       [](B& b) {
         for (const bool a : {false, true})
           for (const bool w : {false, true}) product(b, {b.tokens, 6}, {1, 2}, a, w);
       }},
      {"MatmulId",
       [](B& b) {
         const ValueId id = b.i32({b.tokens, 2}, {0, 2, 1, 0, 2, 1, 1, 0, 0, 1});
         b.loss(ops::matmul_id(b.g, b.x({b.tokens, 2, 4}), b.x({3, 3, 4}), id));
         b.loss(ops::matmul_id(b.g, b.x({b.tokens, 1, 4}), b.constant(b.activations, {3, 3, 4}), id));
         b.loss(ops::matmul_id(b.g, b.frozen(b.activations, {b.tokens, 1, 4}), b.x({3, 3, 4}), id));
       }},
      {"AttentionDense",
       [](B& b) {
         b.loss(ops::attention_dense(b.g, {.q = b.x({1, b.tokens, 4, 3}), .k = b.x({1, b.tokens, 2, 3}), .v = b.x({1, b.tokens, 2, 2})},
                                     {.scale = 0.7})
                    .y);
       }},
      {"AttentionDenseWithAllThatMasks",
       [](B& b) {
         b.loss(ops::attention_dense(b.g,
                                     {.q = b.x({2, 3, 2, 3}),
                                      .k = b.x({2, 5, 1, 3}),
                                      .v = b.x({2, 5, 1, 2}),
                                      .mask = b.frozen(b.activations, {3, 5}),
                                      .sinks = b.constant(QUERN_F32, {2})},
                                     {.scale = 0.7, .causal = true, .query_offset = 2, .window = 3, .softcap = 0.8})
                    .y);
       }},
      {"AttentionRagged",
       [](B& b) {
         const ops::AttentionRaggedInputs in{b.x({b.tokens, 4, 3}), b.x({b.tokens, 2, 3}), b.x({b.tokens, 2, 2}), b.i32({4}, {0, 2, 2, 5})};
         b.loss(ops::attention_ragged(b.g, in, {.scale = 0.7}).y);
       }},
      {"AttentionRaggedWithAllThatHides",
       [](B& b) {
         const ops::AttentionRaggedInputs in{b.x({b.tokens, 2, 3}), b.x({b.tokens, 1, 3}), b.x({b.tokens, 1, 2}), b.i32({3}, {0, 1, 4})};
         b.loss(ops::attention_ragged(b.g, in, {.scale = 0.7, .causal = false, .window = 2, .softcap = 0.8}).y);
       }},
      {"MoeRouter",
       [](B& b) {
         for (const std::int64_t kind : {0, 1})
           for (const bool renormalise : {false, true})
             b.loss(ops::moe_router(b.g, b.f32({b.tokens, 5}), b.constant(QUERN_F32, {5}),
                                    {.used = 2, .kind = kind, .renormalise = renormalise, .scale = 1.5})
                        .weight);
       }},
      {"MoeCombine",
       [](B& b) {
         b.loss(ops::moe_combine(b.g, b.x({b.tokens, 2, 3}), b.f32({b.tokens, 2})));
       }},
      {"CrossEntropy",
       [](B& b) {
         b.loss(ops::cross_entropy(b.g, b.x({b.tokens, 6}), b.i32({b.tokens}, {0, 5, -100, 2, 2}), {.smoothing = 0.1, .z_loss = 0.3}).loss);
       }},
      {"MaskedMean",
       [](B& b) {
         b.loss(ops::masked_mean(b.g, b.f32({b.tokens}), b.i32({b.tokens}, {1, 0, 1, 1, 0})).y);
       }},
      {"LoraMatmul",
       [](B& b) {
         const ValueId table = b.i32({2, 4}, {0, 8, 2, scale_bits(0.5f), 14, 18, 1, scale_bits(2.0f)});
         const graph::ops::LoraInputs in{b.x({b.tokens, 4}), b.x({24}), table, b.i32({b.tokens}, {0, 1, -1, 1, 0})};
         b.loss(ops::lora_matmul(b.g, in, b.x({b.tokens, 3}), 3, 1.5));
       }},
      {"LoraMerge",
       [](B& b) {
         b.loss(ops::lora_merge(b.g, b.x({3, 4}), b.x({2, 4}), b.x({3, 2}), 0.5));
       }},
      {"Dropout",
       [](B& b) {
         b.loss(ops::dropout(b.g, b.x({b.tokens, 4}), b.integers(QUERN_U32, {2}, {7, 9}), b.i32({1}, {3}), 0.4, 2));
       }},
      {"Sum",
       [](B& b) {
         b.loss(ops::sum(b.g, b.x({b.tokens, 3}), {.output_dtype = QUERN_F32}));
       }},
      {"SumOfAScalar", [](B& b) { b.loss(ops::sum(b.g, b.x({}))); }},
      {"Mean",
       [](B& b) {
         b.loss(ops::mean(b.g, b.x({2, 3})));
       }},
      {"MeanOfRangedRows",
       [](B& b) {
         b.loss(ops::mean(b.g, b.x({b.tokens, 3})));
       }},
      {"SumRows",
       [](B& b) {
         b.loss(ops::sum_rows(b.g, b.x({b.tokens, 3})));
       }},
      {"Norm",
       [](B& b) {
         b.loss(ops::norm(b.g, b.x({b.tokens, 3}), {.output_dtype = QUERN_F32}));
       }},
  };
  return all;
}

class OpGradients : public testing::TestWithParam<OpCase> {};

TEST_P(OpGradients, AgreeWithCentralDifferences) {
  for (const quern_dtype dtype : {QUERN_F32, QUERN_F16})
    for (const bool accumulate : {false, true}) {
      SCOPED_TRACE(graph::dtype_name(dtype) + (accumulate ? ", added to state" : ", a new value"));
      GradientBench bench(dtype, accumulate);
      GetParam().build(bench);
      bench.check();
    }
}

INSTANTIATE_TEST_SUITE_P(Ops, OpGradients, testing::ValuesIn(cases()), [](const auto& one) { return std::string(one.param.name); });

TEST(OpGradients, EveryOpWithAGradientIsCheckedAndNoOther) {
  std::set<std::uint32_t> checked;
  for (const OpCase& one : cases()) {
    GradientBench bench;
    one.build(bench);
    for (const graph::Node& node : bench.g.nodes()) checked.insert(node.op);
  }
  // Paged attention is refused, and a collective needs ranks: differentiate_test.cpp has both.
  const std::set<std::string> elsewhere = {"attention", "all_reduce", "all_gather", "reduce_scatter"};
  for (const graph::OpInfo& op : graph::all_ops()) {
    if (op.gradient == "-") continue;
    EXPECT_NE(checked.contains(op.id), elsewhere.contains(op.name)) << op.name;
  }
}

}  // namespace
}  // namespace quern::test
