// Rule cases of norms and softmax.
#include "rule_cases.hpp"

namespace quern::test {

std::vector<RuleCase> norm_cases() {
  return {
      {QUERN_OP_RMS_NORM,
       "Rows",
       [](Bench& b) {
         ops::rms_norm(b.g, b.f16({b.t, 8}), b.weight(QUERN_F32, {8}), {.epsilon = 1e-5});
       },
       "f16 [tokens<=16, 8]",
       {}},
      {QUERN_OP_RMS_NORM,
       "Heads",
       [](Bench& b) {
         ops::rms_norm(b.g, b.f32({b.t, 4, 8}), b.weight(QUERN_F32, {8}), {.epsilon = 1e-5});
       },
       "f32 [tokens<=16, 4, 8]",
       {}},
      {QUERN_OP_RMS_NORM, "WithoutWeight", [](Bench& b) { ops::rms_norm(b.g, b.f32({8}), no_value, {.epsilon = 1e-5}); }, "f32 [8]", {}},
      {QUERN_OP_RMS_NORM,
       "WeightLength",
       [](Bench& b) {
         ops::rms_norm(b.g, b.f32({b.t, 8}), b.weight(QUERN_F32, {7}), {.epsilon = 1e-5}, here());
       },
       "",
       {"weight is f32 [7] but the last dimension of x is 8 (x is f32 [tokens<=16, 8])"}},
      {QUERN_OP_RMS_NORM,
       "WeightDtype",
       [](Bench& b) { ops::rms_norm(b.g, b.f16({8}), b.weight(QUERN_F16, {8}), {.epsilon = 1e-5}, here()); },
       "",
       {"weight is f16 [8]; it may be f32"}},
      {QUERN_OP_RMS_NORM,
       "EpsilonZero",
       [](Bench& b) { ops::rms_norm(b.g, b.f32({8}), no_value, {.epsilon = 0}, here()); },
       "",
       {"epsilon is 0"}},
      {QUERN_OP_RMS_NORM,
       "EpsilonThatF32Loses",
       [](Bench& b) { ops::rms_norm(b.g, b.f32({8}), no_value, {.epsilon = 1e-60}, here()); },
       "",
       {"epsilon is 1e-60"}},
      {QUERN_OP_RMS_NORM,
       "WithoutEpsilon",
       [](Bench& b) { b.g.add_node(QUERN_OP_RMS_NORM, {b.f32({8})}, {}, here()); },
       "",
       {"needs the attribute epsilon"}},
      {QUERN_OP_RMS_NORM,
       "AttributeOfAnother",
       [](Bench& b) {
         b.g.add_node(QUERN_OP_RMS_NORM, {b.f32({8})}, graph::Attributes().set(QUERN_KEY_EPSILON, 1.0).set(QUERN_KEY_BASE, 1.0), here());
       },
       "",
       {"has no attribute base"}},
      {QUERN_OP_RMS_NORM,
       "Scalar",
       [](Bench& b) { ops::rms_norm(b.g, b.f32({}), no_value, {.epsilon = 1}, here()); },
       "",
       {"at least 1 dimension"}},
      {QUERN_OP_RMS_NORM_BACKWARD,
       "Accepts",
       [](Bench& b) {
         ops::rms_norm_backward(b.g, b.f32({b.t, 8}), b.weight(QUERN_F32, {8}), b.f32({b.t, 8}), {.epsilon = 1});
       },
       "f32 [tokens<=16, 8]; f32 [8]",
       {}},
      {QUERN_OP_RMS_NORM_BACKWARD,
       "WithoutWeight",
       [](Bench& b) {
         ops::rms_norm_backward(b.g, b.f32({b.t, 8}), no_value, b.f32({b.t, 8}), {.epsilon = 1});
       },
       "f32 [tokens<=16, 8]; -",
       {}},
      {QUERN_OP_RMS_NORM_BACKWARD,
       "AccumulatesIntoNothing",
       [](Bench& b) {
         ops::rms_norm_backward(b.g, b.f32({b.t, 8}), b.weight(QUERN_F32, {8}), b.f32({b.t, 8}), {.epsilon = 1}, true, here());
       },
       "",
       {"dweight", "state"}},
      {QUERN_OP_LAYER_NORM,
       "Accepts",
       [](Bench& b) {
         ops::layer_norm(b.g, b.f32({2, 8}), no_value, b.weight(QUERN_F32, {8}), 1e-5);
       },
       "f32 [2, 8]",
       {}},
      {QUERN_OP_LAYER_NORM,
       "BiasLength",
       [](Bench& b) {
         ops::layer_norm(b.g, b.f32({2, 8}), b.weight(QUERN_F32, {8}), b.weight(QUERN_F32, {2}), 1e-5, here());
       },
       "",
       {"bias is f32 [2]"}},
      {QUERN_OP_LAYER_NORM_BACKWARD,
       "Accepts",
       [](Bench& b) {
         ops::layer_norm_backward(b.g, b.f32({2, 8}), b.weight(QUERN_F32, {8}), b.f32({2, 8}), 1e-5);
       },
       "f32 [2, 8]; f32 [8]; f32 [8]",
       {}},
      {QUERN_OP_LAYER_NORM_BACKWARD,
       "SkipsDbias",
       [](Bench& b) {
         graph::NodeOptions options;
         options.skip_outputs = 1u << 2;
         ops::layer_norm_backward(b.g, b.f32({2, 8}), b.weight(QUERN_F32, {8}), b.f32({2, 8}), 1e-5, false, options);
       },
       "f32 [2, 8]; f32 [8]; -",
       {}},
      {QUERN_OP_LAYER_NORM_BACKWARD,
       "DyShape",
       [](Bench& b) {
         ops::layer_norm_backward(b.g, b.f32({2, 8}), no_value, b.f32({8}), 1e-5, false, here());
       },
       "",
       {"dy is f32 [8] but x is f32 [2, 8]"}},
      {QUERN_OP_L2_NORM,
       "Accepts",
       [](Bench& b) {
         ops::l2_norm(b.g, b.f32({2, 8}), 1e-5);
       },
       "f32 [2, 8]",
       {}},
      {QUERN_OP_L2_NORM,
       "Epsilon",
       [](Bench& b) {
         ops::l2_norm(b.g, b.f32({2, 8}), -1, here());
       },
       "",
       {"epsilon is -1"}},
      {QUERN_OP_L2_NORM_BACKWARD,
       "Accepts",
       [](Bench& b) {
         ops::l2_norm_backward(b.g, b.f32({2, 8}), b.f32({2, 8}), 1e-5);
       },
       "f32 [2, 8]",
       {}},
      {QUERN_OP_L2_NORM_BACKWARD,
       "DyShape",
       [](Bench& b) {
         ops::l2_norm_backward(b.g, b.f32({2, 8}), b.f32({2, 7}), 1e-5, here());
       },
       "",
       {"dy is f32 [2, 7]"}},
      {QUERN_OP_ADD_RMS_NORM,
       "Accepts",
       [](Bench& b) {
         ops::add_rms_norm(b.g, b.f32({b.t, 8}), b.f32({b.t, 8}), b.weight(QUERN_F32, {8}), {.epsilon = 1});
       },
       "f32 [tokens<=16, 8]; f32 [tokens<=16, 8]",
       {}},
      {QUERN_OP_ADD_RMS_NORM,
       "Broadcast",
       [](Bench& b) {
         ops::add_rms_norm(b.g, b.f32({b.t, 8}), b.f32({8}), b.weight(QUERN_F32, {8}), {.epsilon = 1}, here());
       },
       "",
       {"b is f32 [8] but a is f32 [tokens<=16, 8]"}},
  };
}

std::vector<RuleCase> softmax_cases() {
  return {
      {QUERN_OP_SOFTMAX,
       "Scores",
       [](Bench& b) {
         ops::softmax(b.g, b.f32({4, 5, 6}), b.f16({5, 6}), b.f32({4}), {.scale = 0.5, .causal = true, .max_bias = 8});
       },
       "f32 [4, 5, 6]",
       {}},
      {QUERN_OP_SOFTMAX, "Vector", [](Bench& b) { ops::softmax(b.g, b.f32({6}), no_value, no_value); }, "f32 [6]", {}},
      {QUERN_OP_SOFTMAX,
       "SinksOfOtherHeads",
       [](Bench& b) {
         ops::softmax(b.g, b.f32({4, 5, 6}), no_value, b.f32({5}), {}, here());
       },
       "",
       {"sinks is f32 [5]", "[4]"}},
      {QUERN_OP_SOFTMAX,
       "MaskDoesNotFit",
       [](Bench& b) {
         ops::softmax(b.g, b.f32({4, 5, 6}), b.f32({6, 5}), no_value, {}, here());
       },
       "",
       {"mask is f32 [6, 5]"}},
      {QUERN_OP_SOFTMAX,
       "CausalVector",
       [](Bench& b) { ops::softmax(b.g, b.f32({6}), no_value, no_value, {.causal = true}, here()); },
       "",
       {"at least 2 dimensions"}},
      {QUERN_OP_SOFTMAX,
       "NegativeWindow",
       [](Bench& b) {
         ops::softmax(b.g, b.f32({5, 6}), no_value, no_value, {.window = -1}, here());
       },
       "",
       {"window is -1"}},
      {QUERN_OP_SOFTMAX,
       "Bf16",
       [](Bench& b) { ops::softmax(b.g, b.in(QUERN_BF16, {6}), no_value, no_value, {}, here()); },
       "",
       {"x is bf16 [6]; it may be f32 or f16"}},
      {QUERN_OP_SOFTMAX_BACKWARD,
       "Accepts",
       [](Bench& b) {
         ops::softmax_backward(b.g, b.f32({2, 6}), b.f32({2, 6}), 0.5);
       },
       "f32 [2, 6]",
       {}},
      {QUERN_OP_SOFTMAX_BACKWARD,
       "Refuses",
       [](Bench& b) {
         ops::softmax_backward(b.g, b.f32({2, 6}), b.f32({6}), 1, here());
       },
       "",
       {"dy is f32 [6]"}},
      {QUERN_OP_LOGSUMEXP,
       "Accepts",
       [](Bench& b) {
         ops::logsumexp(b.g, b.f32({b.t, 6}));
       },
       "f32 [tokens<=16]",
       {}},
      {QUERN_OP_LOGSUMEXP, "Scalar", [](Bench& b) { ops::logsumexp(b.g, b.f32({}), here()); }, "", {"at least 1 dimension"}},
  };
}

}  // namespace quern::test
