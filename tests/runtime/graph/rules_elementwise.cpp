// Rule cases of elementwise ops.
#include "rule_cases.hpp"

#include <cmath>
#include <limits>

namespace quern::test {

std::vector<RuleCase> elementwise_cases() {
  return {
      {QUERN_OP_ADD,
       "Residual",
       [](Bench& b) {
         ops::add(b.g, b.f32({b.t, 8}), b.f32({b.t, 8}));
       },
       "f32 [tokens<=16, 8]",
       {}},
      {QUERN_OP_ADD,
       "Bias",
       [](Bench& b) {
         ops::add(b.g, b.f16({b.t, 8}), b.f16({8}));
       },
       "f16 [tokens<=16, 8]",
       {}},
      {QUERN_OP_ADD,
       "ColumnOfOne",
       [](Bench& b) {
         ops::add(b.g, b.f32({b.t, 8}), b.f32({b.t, 1}));
       },
       "f32 [tokens<=16, 8]",
       {}},
      {QUERN_OP_ADD,
       "OtherDtype",
       [](Bench& b) { ops::add(b.g, b.f32({8}), b.f16({8}), 1, here()); },
       "",
       {"b is f16 [8] but a is f32 [8]", "same dtype"}},
      {QUERN_OP_ADD,
       "OtherLength",
       [](Bench& b) {
         ops::add(b.g, b.f32({b.t, 8}), b.f32({9}), 1, here());
       },
       "",
       {"b is f32 [9]", "does not broadcast to [tokens<=16, 8]"}},
      {QUERN_OP_ADD,
       "FixedWhereRanged",
       [](Bench& b) {
         ops::add(b.g, b.f32({b.t, 8}), b.f32({16, 8}), 1, here());
       },
       "",
       {"b is f32 [16, 8]"}},
      {QUERN_OP_ADD,
       "Integers",
       [](Bench& b) { ops::add(b.g, b.i32({8}), b.i32({8}), 1, here()); },
       "",
       {"a is i32 [8]", "f32, f16 or bf16"}},
      {QUERN_OP_ADD, "AlphaNotFinite", [](Bench& b) { ops::add(b.g, b.f32({8}), b.f32({8}), INFINITY, here()); }, "", {"alpha is inf"}},
      {QUERN_OP_ADD,
       "AlphaNotANumber",
       [](Bench& b) { ops::add(b.g, b.f32({8}), b.f32({8}), NAN, here()); },
       "",
       {"alpha", "not a number"}},
      {QUERN_OP_SUB,
       "Accepts",
       [](Bench& b) {
         ops::sub(b.g, b.f32({2, 8}), b.f32({1, 8}));
       },
       "f32 [2, 8]",
       {}},
      {QUERN_OP_SUB,
       "MoreDimensionsInB",
       [](Bench& b) {
         ops::sub(b.g, b.f32({8}), b.f32({2, 8}), here());
       },
       "",
       {"b is f32 [2, 8]"}},
      {QUERN_OP_MUL,
       "Accepts",
       [](Bench& b) {
         ops::mul(b.g, b.f32({2, 8}), b.f32({}));
       },
       "f32 [2, 8]",
       {}},
      {QUERN_OP_MUL,
       "Refuses",
       [](Bench& b) {
         ops::mul(b.g, b.f32({2, 8}), b.f32({2}), here());
       },
       "",
       {"b is f32 [2]"}},
      {QUERN_OP_DIV,
       "Accepts",
       [](Bench& b) {
         ops::div(b.g, b.f32({2, 8}), b.f32({2, 8}));
       },
       "f32 [2, 8]",
       {}},
      {QUERN_OP_DIV,
       "Refuses",
       [](Bench& b) {
         ops::div(b.g, b.f32({2, 8}), b.f32({3, 8}), here());
       },
       "",
       {"b is f32 [3, 8]"}},
      {QUERN_OP_SCALE,
       "Accepts",
       [](Bench& b) {
         ops::scale(b.g, b.f32({2, 8}), 0.5, 3);
       },
       "f32 [2, 8]",
       {}},
      {QUERN_OP_SCALE, "BetaAboveF32", [](Bench& b) { ops::scale(b.g, b.f32({8}), 1, 1e300, here()); }, "", {"beta is 1e+300"}},
      {QUERN_OP_NEG, "Accepts", [](Bench& b) { ops::neg(b.g, b.in(QUERN_BF16, {8})); }, "bf16 [8]", {}},
      {QUERN_OP_NEG, "Refuses", [](Bench& b) { ops::neg(b.g, b.i32({8}), here()); }, "", {"x is i32 [8]"}},
      {QUERN_OP_SQR, "Accepts", [](Bench& b) { ops::sqr(b.g, b.f32({8})); }, "f32 [8]", {}},
      {QUERN_OP_SQR, "Refuses", [](Bench& b) { ops::sqr(b.g, b.i32({8}), here()); }, "", {"x is i32 [8]"}},
      {QUERN_OP_SQRT, "Accepts", [](Bench& b) { ops::sqrt(b.g, b.f32({})); }, "f32 []", {}},
      {QUERN_OP_SQRT, "Refuses", [](Bench& b) { ops::sqrt(b.g, b.weight(QUERN_Q8_0, {32}), here()); }, "", {"x is q8_0 [32]"}},
      {QUERN_OP_ABS,
       "Accepts",
       [](Bench& b) {
         ops::abs(b.g, b.f32({0, 8}));
       },
       "f32 [0, 8]",
       {}},
      {QUERN_OP_ABS, "Refuses", [](Bench& b) { ops::abs(b.g, b.u32({8}), here()); }, "", {"x is u32 [8]"}},
      {QUERN_OP_CLAMP, "Accepts", [](Bench& b) { ops::clamp(b.g, b.f32({8}), -INFINITY, 3); }, "f32 [8]", {}},
      {QUERN_OP_CLAMP, "MinAboveMax", [](Bench& b) { ops::clamp(b.g, b.f32({8}), 2, 1, here()); }, "", {"min is 2", "max, which is 1"}},
      {QUERN_OP_FILL,
       "Float",
       [](Bench& b) {
         ops::fill(b.g, {b.t, 2}, QUERN_F16, NAN);
       },
       "f16 [tokens<=16, 2]",
       {}},
      {QUERN_OP_FILL, "Integer", [](Bench& b) { ops::fill(b.g, {3}, QUERN_I32, -1); }, "i32 [3]", {}},
      {QUERN_OP_FILL, "HalfAnInteger", [](Bench& b) { ops::fill(b.g, {3}, QUERN_I32, 0.5, here()); }, "", {"value is 0.5", "i32"}},
      {QUERN_OP_FILL, "IntegerTooLarge", [](Bench& b) { ops::fill(b.g, {3}, QUERN_I32, 0x1p31, here()); }, "", {"i32 cannot hold"}},
      {QUERN_OP_FILL, "BlockFormat", [](Bench& b) { ops::fill(b.g, {32}, QUERN_Q8_0, 0, here()); }, "", {"q8_0"}},
      {QUERN_OP_CUMSUM,
       "Accepts",
       [](Bench& b) {
         ops::cumsum(b.g, b.f32({2, 8}));
       },
       "f32 [2, 8]",
       {}},
      {QUERN_OP_CUMSUM, "Scalar", [](Bench& b) { ops::cumsum(b.g, b.f32({}), here()); }, "", {"at least 1 dimension"}},
  };
}

std::vector<RuleCase> activation_cases() {
  std::vector<RuleCase> cases = {
      {QUERN_OP_GELU, "Tanh", [](Bench& b) { ops::gelu(b.g, b.f32({8}), 1); }, "f32 [8]", {}},
      {QUERN_OP_GELU, "UnknownKind", [](Bench& b) { ops::gelu(b.g, b.f32({8}), 3, here()); }, "", {"kind is 3", "0 to 2"}},
      {QUERN_OP_GELU_BACKWARD, "Accepts", [](Bench& b) { ops::gelu_backward(b.g, b.f32({8}), b.f32({8}), 2); }, "f32 [8]", {}},
      {QUERN_OP_GELU_BACKWARD,
       "Shapes",
       [](Bench& b) { ops::gelu_backward(b.g, b.f32({8}), b.f32({7}), 0, here()); },
       "",
       {"dy is f32 [7] but x is f32 [8]"}},
      {QUERN_OP_GLU,
       "TwoInputs",
       [](Bench& b) {
         ops::glu(b.g, b.f32({b.t, 6}), b.f32({b.t, 6}));
       },
       "f32 [tokens<=16, 6]",
       {}},
      {QUERN_OP_GLU,
       "Packed",
       [](Bench& b) {
         ops::glu(b.g, b.f32({b.t, 6}), no_value, {.kind = 2, .swapped = true});
       },
       "f32 [tokens<=16, 3]",
       {}},
      {QUERN_OP_GLU,
       "PackedOdd",
       [](Bench& b) {
         ops::glu(b.g, b.f32({b.t, 7}), no_value, {}, here());
       },
       "",
       {"gate is f32 [tokens<=16, 7]", "even"}},
      {QUERN_OP_GLU,
       "PackedRanged",
       [](Bench& b) {
         ops::glu(b.g, b.f32({2, b.t}), no_value, {}, here());
       },
       "",
       {"fixed size"}},
      {QUERN_OP_GLU,
       "UpDiffers",
       [](Bench& b) {
         ops::glu(b.g, b.f32({2, 8}), b.f32({2, 7}), {}, here());
       },
       "",
       {"up is f32 [2, 7]"}},
      {QUERN_OP_GLU, "UnknownKind", [](Bench& b) { ops::glu(b.g, b.f32({8}), b.f32({8}), {.kind = 5}, here()); }, "", {"kind is 5"}},
      {QUERN_OP_GLU, "LimitZero", [](Bench& b) { ops::glu(b.g, b.f32({8}), b.f32({8}), {.limit = 0}, here()); }, "", {"limit is 0"}},
      {QUERN_OP_GLU_BACKWARD, "Both", [](Bench& b) { ops::glu_backward(b.g, b.f32({8}), b.f32({8}), b.f32({8})); }, "f32 [8]; f32 [8]", {}},
      {QUERN_OP_GLU_BACKWARD, "Packed", [](Bench& b) { ops::glu_backward(b.g, b.f32({8}), no_value, b.f32({4})); }, "f32 [8]; -", {}},
      {QUERN_OP_GLU_BACKWARD,
       "PackedDy",
       [](Bench& b) { ops::glu_backward(b.g, b.f32({8}), no_value, b.f32({8}), {}, here()); },
       "",
       {"dy is f32 [8]", "[4]"}},
  };
  using Unary = ValueId (*)(graph::Graph&, ValueId, graph::NodeOptions);
  using Backward = ValueId (*)(graph::Graph&, ValueId, ValueId, graph::NodeOptions);
  const struct {
    std::uint32_t forward, backward;
    Unary f;
    Backward df;
  } plain[] = {{QUERN_OP_SILU, QUERN_OP_SILU_BACKWARD, ops::silu, ops::silu_backward},
               {QUERN_OP_RELU, QUERN_OP_RELU_BACKWARD, ops::relu, ops::relu_backward},
               {QUERN_OP_RELU_SQR, QUERN_OP_RELU_SQR_BACKWARD, ops::relu_sqr, ops::relu_sqr_backward},
               {QUERN_OP_SIGMOID, QUERN_OP_SIGMOID_BACKWARD, ops::sigmoid, ops::sigmoid_backward},
               {QUERN_OP_TANH, QUERN_OP_TANH_BACKWARD, ops::tanh, ops::tanh_backward}};
  for (const auto& [forward, backward, f, df] : plain) {
    cases.push_back({forward, "Accepts", [f = f](Bench& b) { f(b.g, b.f16({b.t, 8}), {}); }, "f16 [tokens<=16, 8]", {}});
    cases.push_back({forward, "Integers", [f = f](Bench& b) { f(b.g, b.i32({8}), here()); }, "", {"x is i32 [8]"}});
    cases.push_back({backward, "Accepts", [df = df](Bench& b) { df(b.g, b.f32({2, 8}), b.f32({2, 8}), {}); }, "f32 [2, 8]", {}});
    cases.push_back({backward,
                     "OtherShape",
                     [df = df](Bench& b) {
                       df(b.g, b.f32({2, 8}), b.f32({8, 2}), here());
                     },
                     "",
                     {"dy is f32 [8, 2] but x is f32 [2, 8]"}});
    cases.push_back({backward, "OtherDtype", [df = df](Bench& b) { df(b.g, b.f32({8}), b.f16({8}), here()); }, "", {"same dtype"}});
  }
  return cases;
}

}  // namespace quern::test
