// Rule cases of rope and of products.
#include "rule_cases.hpp"

#include <cmath>

namespace quern::test {

std::vector<RuleCase> rope_cases() {
  using ops::RopeScaling;
  const auto table = [](std::string name, ops::RopeTableAttributes how, std::vector<std::string> words, Shape shape = {32, 4, 2}) {
    return RuleCase{QUERN_OP_ROPE_TABLE, std::move(name),
                    [=](Bench& b) { ops::rope_table(b.g, shape, b.state(QUERN_I32, {1}), b.weight(QUERN_F32, {4}), how, here()); },
                    words.empty() ? "f32 [32, 4, 2]" : "", std::move(words)};
  };
  return {
      table("Plain", {}, {}),
      table("Yarn", {.scaling = RopeScaling::yarn, .factor = 4, .original_context = 64}, {}),
      table("BaseZero", {.base = 0}, {"base is 0"}),
      table("BaseInfinite", {.base = INFINITY}, {"base is inf"}),
      table("YarnWithoutContext", {.scaling = RopeScaling::yarn, .factor = 4}, {"original_context"}),
      table("YarnBetasReversed", {.scaling = RopeScaling::yarn, .original_context = 64, .beta_fast = 1, .beta_slow = 2},
            {"beta_fast is 1"}),
      table("Llama3FactorsEqual", {.scaling = RopeScaling::llama3, .original_context = 64, .low_freq_factor = 4},
            {"high_freq_factor is 4"}),
      table("Dynamic", {.scaling = RopeScaling::dynamic, .factor = 4, .original_context = 64}, {}),
      table("DynamicWithoutContext", {.scaling = RopeScaling::dynamic, .factor = 4}, {"scaling 5", "original_context"}),
      table("UnknownScaling", {.scaling = static_cast<RopeScaling>(6)}, {"scaling is 6"}),
      table("FactorsOfOtherLength", {}, {"factors is f32 [4]", "[3]"}, {32, 3, 2}),
      table("NotPairs", {}, {"[32, 4, 3]", "[positions, pairs, 2]"}, {32, 4, 3}),
      {QUERN_OP_ROPE_TABLE,
       "WithoutInputs",
       [](Bench& b) {
         ops::rope_table(b.g, {32, 4, 2}, no_value, no_value, {});
       },
       "f32 [32, 4, 2]",
       {}},
      {QUERN_OP_ROPE,
       "Whole",
       [](Bench& b) {
         ops::rope(b.g, b.f16({b.t, 4, 8}), b.i32({b.t}), b.f32({32, 4, 2}), {});
       },
       "f16 [tokens<=16, 4, 8]",
       {}},
      {QUERN_OP_ROPE,
       "Partial",
       [](Bench& b) {
         ops::rope(b.g, b.f32({b.t, 4, 8}), b.i32({b.t}), b.f32({32, 2, 2}), {.mode = 1});
       },
       "f32 [tokens<=16, 4, 8]",
       {}},
      {QUERN_OP_ROPE,
       "Sections",
       [](Bench& b) {
         ops::rope(b.g, b.f32({b.t, 4, 8}), b.i32({4, b.t}), b.f32({32, 4, 2}), {.mode = 1, .inverse = false, .sections = {1, 2, 1, 0}});
       },
       "f32 [tokens<=16, 4, 8]",
       {}},
      {QUERN_OP_ROPE,
       "TableTooWide",
       [](Bench& b) {
         ops::rope(b.g, b.f32({b.t, 4, 8}), b.i32({b.t}), b.f32({32, 5, 2}), {}, here());
       },
       "",
       {"10 elements of a head", "heads have 8"}},
      {QUERN_OP_ROPE,
       "PositionsOfOtherRows",
       [](Bench& b) {
         ops::rope(b.g, b.f32({b.t, 4, 8}), b.i32({b.o}), b.f32({32, 4, 2}), {}, here());
       },
       "",
       {"position is i32 [outputs<=4]", "[tokens<=16]"}},
      {QUERN_OP_ROPE,
       "SectionsDoNotAddUp",
       [](Bench& b) {
         ops::rope(b.g, b.f32({b.t, 4, 8}), b.i32({4, b.t}), b.f32({32, 4, 2}), {.mode = 1, .inverse = false, .sections = {1, 1, 1, 0}},
                   here());
       },
       "",
       {"cover 3 pairs but the table has 4"}},
      {QUERN_OP_ROPE,
       "UnknownMode",
       [](Bench& b) {
         ops::rope(b.g, b.f32({b.t, 4, 8}), b.i32({b.t}), b.f32({32, 4, 2}), {.mode = 2}, here());
       },
       "",
       {"mode is 2"}},
      {QUERN_OP_ROPE,
       "TwoDimensions",
       [](Bench& b) {
         ops::rope(b.g, b.f32({b.t, 8}), b.i32({b.t}), b.f32({32, 4, 2}), {}, here());
       },
       "",
       {"3 dimensions"}},
  };
}

std::vector<RuleCase> matmul_cases() {
  const graph::NodeOptions plain = here();
  return {
      {QUERN_OP_MATMUL,
       "Weights",
       [](Bench& b) {
         ops::matmul(b.g, b.f32({b.t, 64}), b.weight(QUERN_Q4_1, {12, 64}));
       },
       "f32 [tokens<=16, 12]",
       {}},
      {QUERN_OP_MATMUL,
       "Everything",
       [](Bench& b) {
         ops::matmul(b.g, b.f16({b.t, 8}), b.weight(QUERN_BF16, {12, 8}), b.weight(QUERN_F32, {12}), b.f32({b.t, 12}),
                     {.alpha = 2, .beta = 3}, here(QUERN_F32));
       },
       "f32 [tokens<=16, 12]",
       {}},
      {QUERN_OP_MATMUL,
       "Transposes",
       [](Bench& b) {
         ops::matmul(b.g, b.f32({8, 5}), b.f32({8, 12}), no_value, no_value, {.transpose_a = true, .transpose_b = true});
       },
       "f32 [5, 12]",
       {}},
      {QUERN_OP_MATMUL,
       "HeadGroups",
       [](Bench& b) {
         ops::matmul(b.g, b.f32({2, 6, 5, 8}), b.f32({3, 7, 8}));
       },
       "f32 [2, 6, 5, 7]",
       {}},
      {QUERN_OP_MATMUL,
       "InnerLength",
       [=](Bench& b) {
         ops::matmul(b.g, b.f32({b.t, 64}), b.weight(QUERN_F16, {12, 63}), plain);
       },
       "",
       {"a is f32 [tokens<=16, 64] but b is f16 [12, 63]"}},
      {QUERN_OP_MATMUL,
       "HeadsDoNotDivide",
       [=](Bench& b) {
         ops::matmul(b.g, b.f32({6, 5, 8}), b.f32({4, 7, 8}), plain);
       },
       "",
       {"must divide"}},
      {QUERN_OP_MATMUL,
       "TransposedBlocks",
       [=](Bench& b) {
         ops::matmul(b.g, b.f32({5, 8}), b.weight(QUERN_Q8_0, {8, 32}), no_value, no_value, {.transpose_b = true}, plain);
       },
       "f32 [5, 32]",
       {}},
      {QUERN_OP_MATMUL,
       "IntegerWeights",
       [=](Bench& b) {
         ops::matmul(b.g, b.f32({5, 8}), b.i32({3, 8}), plain);
       },
       "",
       {"b is i32 [3, 8]"}},
      {QUERN_OP_MATMUL,
       "BiasLength",
       [=](Bench& b) {
         ops::matmul(b.g, b.f32({5, 8}), b.f32({3, 8}), b.f32({8}), no_value, {}, plain);
       },
       "",
       {"bias is f32 [8]", "[3]"}},
      {QUERN_OP_MATMUL,
       "AddendDtype",
       [=](Bench& b) {
         ops::matmul(b.g, b.f16({5, 8}), b.f32({3, 8}), no_value, b.f32({5, 3}), {}, plain);
       },
       "",
       {"c is f32 [5, 3]; it may be f16"}},
      {QUERN_OP_MATMUL,
       "Vector",
       [=](Bench& b) {
         ops::matmul(b.g, b.f32({8}), b.f32({3, 8}), plain);
       },
       "",
       {"at least 2 dimensions"}},
      {QUERN_OP_MATMUL,
       "IntegerOutput",
       [](Bench& b) {
         ops::matmul(b.g, b.f32({5, 8}), b.f32({3, 8}), here(QUERN_I32));
       },
       "",
       {"asked for as i32"}},
      {QUERN_OP_MATMUL_ID,
       "Accepts",
       [](Bench& b) {
         ops::matmul_id(b.g, b.f32({b.t, 1, 32}), b.weight(QUERN_Q8_0, {4, 6, 32}), b.i32({b.t, 2}));
       },
       "f32 [tokens<=16, 2, 6]",
       {}},
      {QUERN_OP_MATMUL_ID,
       "UsedDiffers",
       [=](Bench& b) {
         ops::matmul_id(b.g, b.f32({b.t, 3, 8}), b.f32({4, 6, 8}), b.i32({b.t, 2}), plain);
       },
       "",
       {"a is f32 [tokens<=16, 3, 8] but id is i32 [tokens<=16, 2]"}},
      {QUERN_OP_MATMUL_ID_BACKWARD,
       "Both",
       [](Bench& b) {
         ops::matmul_id_backward(b.g, b.f32({b.t, 2, 6}), b.f32({b.t, 1, 8}), b.f32({4, 6, 8}), b.i32({b.t, 2}));
       },
       "f32 [tokens<=16, 1, 8]; f32 [4, 6, 8]",
       {}},
      {QUERN_OP_MATMUL_ID_BACKWARD,
       "WeightsOnly",
       [](Bench& b) {
         graph::NodeOptions options;
         options.output_shape = {4, 6, 8};
         ops::matmul_id_backward(b.g, b.f32({b.t, 2, 6}), b.f32({b.t, 1, 8}), no_value, b.i32({b.t, 2}), false, options);
       },
       "-; f32 [4, 6, 8]",
       {}},
      {QUERN_OP_MATMUL_ID_BACKWARD,
       "WeightsOfUnknownShape",
       [=](Bench& b) {
         ops::matmul_id_backward(b.g, b.f32({b.t, 2, 6}), b.f32({b.t, 1, 8}), no_value, b.i32({b.t, 2}), false, plain);
       },
       "",
       {"db is []"}},
  };
}

}  // namespace quern::test
