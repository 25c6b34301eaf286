// Rule cases of losses, optimisers, adapters, reductions and collectives.
#include "rule_cases.hpp"

namespace quern::test {
namespace {

ops::LoraInputs adapters(Bench& b) {
  return {.x = b.f32({b.t, 8}), .pool = b.weight(QUERN_F16, {1000}), .table = b.i32({4, 4}), .slot = b.i32({b.t})};
}

ops::AdamwInputs gradient(Bench& b) { return {.gradient = b.f32({3, 8}), .step = b.i32({1}), .lr = b.f32({1})}; }
ops::AdamwState moments(Bench& b) {
  return {.w = b.state(QUERN_BF16, {3, 8}), .m = b.state(QUERN_F32, {3, 8}), .v = b.state(QUERN_F32, {3, 8})};
}

}  // namespace

std::vector<RuleCase> training_cases() {
  return {
      {QUERN_OP_CROSS_ENTROPY,
       "Accepts",
       [](Bench& b) {
         ops::cross_entropy(b.g, b.f16({b.t, 9}), b.i32({b.t}), {.smoothing = 0.1});
       },
       "f32 [tokens<=16]; f32 [tokens<=16]",
       {}},
      {QUERN_OP_CROSS_ENTROPY,
       "Smoothing",
       [](Bench& b) {
         ops::cross_entropy(b.g, b.f32({b.t, 9}), b.i32({b.t}), {.smoothing = 1.5}, here());
       },
       "",
       {"smoothing is 1.5"}},
      {QUERN_OP_CROSS_ENTROPY_BACKWARD,
       "Accepts",
       [](Bench& b) {
         ops::cross_entropy_backward(b.g, b.f16({b.t, 9}), b.i32({b.t}), b.f32({b.t}), b.f32({b.t}));
       },
       "f16 [tokens<=16, 9]",
       {}},
      {QUERN_OP_CROSS_ENTROPY_BACKWARD,
       "Refuses",
       [](Bench& b) {
         ops::cross_entropy_backward(b.g, b.f16({b.t, 9}), b.i32({b.t}), b.f32({b.t}), b.f32({1}), {}, here());
       },
       "",
       {"dloss is f32 [1]"}},
      {QUERN_OP_MASKED_MEAN, "Accepts", [](Bench& b) { ops::masked_mean(b.g, b.f32({b.t}), b.i32({b.t})); }, "f32 [1]; f32 [1]", {}},
      {QUERN_OP_MASKED_MEAN, "Refuses", [](Bench& b) { ops::masked_mean(b.g, b.f32({b.t}), b.f32({b.t}), here()); }, "", {"mask is f32"}},
      {QUERN_OP_MASKED_MEAN_BACKWARD,
       "Accepts",
       [](Bench& b) { ops::masked_mean_backward(b.g, b.i32({b.t}), b.f32({1}), b.f32({1})); },
       "f32 [tokens<=16]",
       {}},
      {QUERN_OP_MASKED_MEAN_BACKWARD,
       "Refuses",
       [](Bench& b) { ops::masked_mean_backward(b.g, b.i32({b.t}), b.f32({2}), b.f32({1}), here()); },
       "",
       {"count is f32 [2]"}},
      {QUERN_OP_ADAMW,
       "Accepts",
       [](Bench& b) { ops::adamw(b.g, gradient(b), moments(b), {}); },
       "bf16 [3, 8]; f32 [3, 8]; f32 [3, 8]; -",
       {}},
      {QUERN_OP_ADAMW,
       "WithMaster",
       [](Bench& b) {
         ops::AdamwState state = moments(b);
         state.master = b.state(QUERN_F32, {3, 8});
         ops::adamw(b.g, gradient(b), state, {});
       },
       "bf16 [3, 8]; f32 [3, 8]; f32 [3, 8]; f32 [3, 8]",
       {}},
      {QUERN_OP_ADAMW,
       "MomentShape",
       [](Bench& b) {
         ops::AdamwState state = moments(b);
         state.m = b.state(QUERN_F32, {8, 3});
         ops::adamw(b.g, gradient(b), state, {}, here());
       },
       "",
       {"m is f32 [3, 8] but 'state' is f32 [8, 3]"}},
      {QUERN_OP_ADAMW,
       "MomentsShared",
       [](Bench& b) {
         ops::AdamwState state = moments(b);
         state.v = state.m;
         ops::adamw(b.g, gradient(b), state, {}, here());
       },
       "",
       {"as two outputs"}},
      {QUERN_OP_ADAMW, "BetaOne", [](Bench& b) { ops::adamw(b.g, gradient(b), moments(b), {.beta1 = 1}, here()); }, "", {"beta1 is 1"}},
      {QUERN_OP_SGD,
       "Accepts",
       [](Bench& b) { ops::sgd(b.g, {.gradient = b.f32({3}), .lr = b.f32({1})}, {.w = b.state(QUERN_F32, {3})}, {}); },
       "f32 [3]; -",
       {}},
      {QUERN_OP_SGD,
       "MomentumMissing",
       [](Bench& b) {
         ops::sgd(b.g, {.gradient = b.f32({3}), .lr = b.f32({1})}, {.w = b.state(QUERN_F32, {3})}, {.momentum = 0.9}, here());
       },
       "",
       {"needs the state momentum"}},
      {QUERN_OP_GRAD_NORM,
       "Accepts",
       [](Bench& b) {
         ops::grad_norm(b.g, {b.f32({3}), b.f16({2, 2})});
       },
       "f32 [1]; i32 [1]",
       {}},
      {QUERN_OP_GRAD_NORM,
       "Refuses",
       [](Bench& b) {
         ops::grad_norm(b.g, {b.f32({3}), b.i32({2})}, here());
       },
       "",
       {"gradient is i32 [2]"}},
      {QUERN_OP_CLIP_SCALE, "Accepts", [](Bench& b) { ops::clip_scale(b.g, b.f32({1}), no_value, 1); }, "f32 [1]", {}},
      {QUERN_OP_CLIP_SCALE, "Refuses", [](Bench& b) { ops::clip_scale(b.g, b.f32({1}), no_value, 0, here()); }, "", {"max_norm is 0"}},
      {QUERN_OP_LORA_MATMUL,
       "WithBase",
       [](Bench& b) {
         ops::lora_matmul(b.g, adapters(b), b.f32({b.t, 5}), 5);
       },
       "f32 [tokens<=16, 5]",
       {}},
      {QUERN_OP_LORA_MATMUL,
       "WithoutBase",
       [](Bench& b) { ops::lora_matmul(b.g, adapters(b), no_value, 5, 2, here(QUERN_F16)); },
       "f16 [tokens<=16, 5]",
       {}},
      {QUERN_OP_LORA_MATMUL,
       "BaseOfOtherWidth",
       [](Bench& b) {
         ops::lora_matmul(b.g, adapters(b), b.f32({b.t, 5}), 6, 1, here());
       },
       "",
       {"base is f32 [tokens<=16, 5]", "[tokens<=16, 6]"}},
      {QUERN_OP_LORA_MATMUL,
       "TableWidth",
       [](Bench& b) {
         ops::LoraInputs in = adapters(b);
         in.table = b.i32({4, 3});
         ops::lora_matmul(b.g, in, no_value, 5, 1, here());
       },
       "",
       {"table is i32 [4, 3]"}},
      {QUERN_OP_LORA_MATMUL_BACKWARD,
       "Accepts",
       [](Bench& b) {
         ops::lora_matmul_backward(b.g, adapters(b), b.f32({b.t, 5}));
       },
       "f32 [tokens<=16, 8]; f16 [1000]",
       {}},
      {QUERN_OP_LORA_MATMUL_BACKWARD,
       "Refuses",
       [](Bench& b) {
         ops::lora_matmul_backward(b.g, adapters(b), b.f32({b.o, 5}), 1, false, here());
       },
       "",
       {"dy is f32 [outputs<=4, 5]"}},
      {QUERN_OP_LORA_MERGE,
       "Accepts",
       [](Bench& b) {
         ops::lora_merge(b.g, b.f16({5, 8}), b.f32({2, 8}), b.f32({5, 2}));
       },
       "f16 [5, 8]",
       {}},
      {QUERN_OP_LORA_MERGE,
       "RanksDiffer",
       [](Bench& b) {
         ops::lora_merge(b.g, b.f16({5, 8}), b.f32({2, 8}), b.f32({5, 3}), 1, here());
       },
       "",
       {"b is f32 [5, 3] but a is f32 [2, 8]"}},
      {QUERN_OP_DROPOUT,
       "Accepts",
       [](Bench& b) {
         ops::dropout(b.g, b.f32({2, 8}), b.u32({2}), b.i32({1}), 0.1);
       },
       "f32 [2, 8]",
       {}},
      {QUERN_OP_DROPOUT,
       "Everything",
       [](Bench& b) {
         ops::dropout(b.g, b.f32({2, 8}), b.u32({2}), b.i32({1}), 1, 0, here());
       },
       "",
       {"p is 1"}},
  };
}

std::vector<RuleCase> reduction_cases() {
  return {
      {QUERN_OP_SUM,
       "Accepts",
       [](Bench& b) {
         ops::sum(b.g, b.f16({b.t, 8}), here(QUERN_F32));
       },
       "f32 [1]",
       {}},
      {QUERN_OP_SUM, "Refuses", [](Bench& b) { ops::sum(b.g, b.f32({8}), here(QUERN_F16)); }, "", {"asked for as f16"}},
      {QUERN_OP_MEAN, "Accepts", [](Bench& b) { ops::mean(b.g, b.f16({8})); }, "f16 [1]", {}},
      {QUERN_OP_MEAN, "Refuses", [](Bench& b) { ops::mean(b.g, b.i32({8}), here()); }, "", {"x is i32 [8]"}},
      {QUERN_OP_NORM,
       "Accepts",
       [](Bench& b) {
         ops::norm(b.g, b.f32({2, 8}));
       },
       "f32 [1]",
       {}},
      {QUERN_OP_NORM, "Refuses", [](Bench& b) { ops::norm(b.g, b.i32({8}), here()); }, "", {"x is i32 [8]"}},
      {QUERN_OP_SUM_ROWS,
       "Accepts",
       [](Bench& b) {
         ops::sum_rows(b.g, b.f32({b.t, 8}));
       },
       "f32 [tokens<=16, 1]",
       {}},
      {QUERN_OP_SUM_ROWS, "Refuses", [](Bench& b) { ops::sum_rows(b.g, b.f32({}), here()); }, "", {"at least 1 dimension"}},
      {QUERN_OP_MAX,
       "Accepts",
       [](Bench& b) {
         ops::max(b.g, b.f32({b.t, 8}));
       },
       "f32 [tokens<=16]",
       {}},
      {QUERN_OP_MAX,
       "OfNothing",
       [](Bench& b) {
         ops::max(b.g, b.f32({2, 0}), here());
       },
       "",
       {"at least one element"}},
      {QUERN_OP_COUNT_EQUAL, "Accepts", [](Bench& b) { ops::count_equal(b.g, b.i32({8}), b.i32({8})); }, "i64 [1]", {}},
      {QUERN_OP_COUNT_EQUAL, "Refuses", [](Bench& b) { ops::count_equal(b.g, b.i32({8}), b.f32({8}), here()); }, "", {"b is f32 [8]"}},
      {QUERN_OP_ALL_REDUCE, "Accepts", [](Bench& b) { ops::all_reduce(b.g, b.f32({8}), 2); }, "f32 [8]", {}},
      {QUERN_OP_ALL_REDUCE, "UnknownKind", [](Bench& b) { ops::all_reduce(b.g, b.f32({8}), 3, here()); }, "", {"kind is 3"}},
      {QUERN_OP_ALL_GATHER,
       "Accepts",
       [](Bench& b) {
         ops::all_gather(b.g, b.f32({b.t, 8}), {b.t, 32}, 1);
       },
       "f32 [tokens<=16, 32]",
       {}},
      {QUERN_OP_ALL_GATHER,
       "NotWholeRanks",
       [](Bench& b) {
         ops::all_gather(b.g, b.f32({2, 8}), {2, 12}, 1, here());
       },
       "",
       {"[2, 8]", "[2, 12]"}},
      {QUERN_OP_REDUCE_SCATTER,
       "Accepts",
       [](Bench& b) {
         ops::reduce_scatter(b.g, b.f32({2, 8}), {2, 2}, 1);
       },
       "f32 [2, 2]",
       {}},
      {QUERN_OP_REDUCE_SCATTER,
       "OtherDimension",
       [](Bench& b) {
         ops::reduce_scatter(b.g, b.f32({2, 8}), {1, 4}, 1, here());
       },
       "",
       {"[1, 4]"}},
      {QUERN_OP_BROADCAST, "Accepts", [](Bench& b) { ops::broadcast(b.g, b.i32({8}), 1); }, "i32 [8]", {}},
      {QUERN_OP_BROADCAST, "Refuses", [](Bench& b) { ops::broadcast(b.g, b.i32({8}), -1, here()); }, "", {"root is -1"}},
  };
}

}  // namespace quern::test
