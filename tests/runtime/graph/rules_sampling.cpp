// Rule cases of ops over logits, and of mixtures of experts.
#include "rule_cases.hpp"

namespace quern::test {

std::vector<RuleCase> sampling_cases() {
  return {
      {QUERN_OP_ARGMAX,
       "Accepts",
       [](Bench& b) {
         ops::argmax(b.g, b.f16({b.o, 9}));
       },
       "i32 [outputs<=4]",
       {}},
      {QUERN_OP_ARGMAX, "Vector", [](Bench& b) { ops::argmax(b.g, b.f32({9})); }, "i32 []", {}},
      {QUERN_OP_ARGMAX,
       "OfNothing",
       [](Bench& b) {
         ops::argmax(b.g, b.f32({2, 0}), here());
       },
       "",
       {"at least one element"}},
      {QUERN_OP_TOP_K,
       "Accepts",
       [](Bench& b) {
         ops::top_k(b.g, b.f32({b.o, 9}), 3);
       },
       "f32 [outputs<=4, 3]; i32 [outputs<=4, 3]",
       {}},
      {QUERN_OP_TOP_K,
       "TooMany",
       [](Bench& b) {
         ops::top_k(b.g, b.f32({b.o, 9}), 10, here());
       },
       "",
       {"k is 10", "1 to 9"}},
      {QUERN_OP_SORT,
       "Accepts",
       [](Bench& b) {
         ops::sort(b.g, b.f32({2, 9}), false);
       },
       "f32 [2, 9]; i32 [2, 9]",
       {}},
      {QUERN_OP_SORT,
       "Dtype",
       [](Bench& b) {
         ops::sort(b.g, b.f16({2, 9}), true, here());
       },
       "",
       {"x is f16 [2, 9]"}},
      {QUERN_OP_PENALIZE,
       "Accepts",
       [](Bench& b) {
         ops::penalize(b.g, b.f32({b.o, 9}), b.i32({b.o, 20}), b.i32({b.o}), b.f32({b.o, 8}));
       },
       "f32 [outputs<=4, 9]",
       {}},
      {QUERN_OP_PENALIZE,
       "Params",
       [](Bench& b) {
         ops::penalize(b.g, b.f32({b.o, 9}), b.i32({b.o, 20}), b.i32({b.o}), b.f32({b.o, 7}), here());
       },
       "",
       {"params is f32 [outputs<=4, 7]", "[outputs<=4, 8]"}},
      {QUERN_OP_PENALIZE,
       "HistoryRows",
       [](Bench& b) {
         ops::penalize(b.g, b.f32({b.o, 9}), b.i32({4, 20}), b.i32({b.o}), b.f32({b.o, 8}), here());
       },
       "",
       {"history is i32 [4, 20]"}},
      {QUERN_OP_LOGIT_BIAS,
       "Accepts",
       [](Bench& b) {
         ops::logit_bias(b.g, b.f32({b.o, 9}), b.i32({b.o, 3}), b.f32({b.o, 3}));
       },
       "f32 [outputs<=4, 9]",
       {}},
      {QUERN_OP_LOGIT_BIAS,
       "Counts",
       [](Bench& b) {
         ops::logit_bias(b.g, b.f32({b.o, 9}), b.i32({b.o, 3}), b.f32({b.o, 2}), here());
       },
       "",
       {"bias is f32 [outputs<=4, 2]"}},
      {QUERN_OP_TOP_P_MASK,
       "Accepts",
       [](Bench& b) {
         ops::top_p_mask(b.g, b.f32({2, 9}), b.f32({2}));
       },
       "f32 [2, 9]",
       {}},
      {QUERN_OP_TOP_P_MASK,
       "Refuses",
       [](Bench& b) {
         ops::top_p_mask(b.g, b.f32({2, 9}), b.f32({1}), here());
       },
       "",
       {"p is f32 [1]"}},
      {QUERN_OP_MIN_P_MASK,
       "Accepts",
       [](Bench& b) {
         ops::min_p_mask(b.g, b.f32({2, 9}), b.f32({2}));
       },
       "f32 [2, 9]",
       {}},
      {QUERN_OP_MIN_P_MASK, "Refuses", [](Bench& b) { ops::min_p_mask(b.g, b.f32({9}), b.f32({1}), here()); }, "", {"2 dimensions"}},
      {QUERN_OP_TOP_K_MASK,
       "Accepts",
       [](Bench& b) {
         ops::top_k_mask(b.g, b.f32({2, 9}), b.i32({2}));
       },
       "f32 [2, 9]",
       {}},
      {QUERN_OP_TOP_K_MASK,
       "Refuses",
       [](Bench& b) {
         ops::top_k_mask(b.g, b.f32({2, 9}), b.f32({2}), here());
       },
       "",
       {"k is f32 [2]"}},
      {QUERN_OP_SAMPLE,
       "Accepts",
       [](Bench& b) {
         ops::sample(b.g, b.f32({b.o, 9}), b.f32({b.o, 8}), b.u32({b.o, 2}), b.i32({b.o}));
       },
       "i32 [outputs<=4]; f32 [outputs<=4]",
       {}},
      {QUERN_OP_SAMPLE,
       "SignedSeed",
       [](Bench& b) {
         ops::sample(b.g, b.f32({b.o, 9}), b.f32({b.o, 8}), b.i32({b.o, 2}), b.i32({b.o}), here());
       },
       "",
       {"seed is i32 [outputs<=4, 2]; it may be u32"}},
      {QUERN_OP_SAMPLE,
       "NoLogits",
       [](Bench& b) {
         ops::sample(b.g, b.f32({b.o, 0}), b.f32({b.o, 8}), b.u32({b.o, 2}), b.i32({b.o}), here());
       },
       "",
       {"at least one logit"}},
      {QUERN_OP_RANDOM_UNIFORM,
       "Accepts",
       [](Bench& b) {
         ops::random_uniform(b.g, {b.t, 3}, b.u32({2}), b.i32({1}), 7);
       },
       "f32 [tokens<=16, 3]",
       {}},
      {QUERN_OP_RANDOM_UNIFORM,
       "Salt",
       [](Bench& b) { ops::random_uniform(b.g, {3}, b.u32({2}), b.i32({1}), 1ll << 32, here()); },
       "",
       {"salt is 4294967296"}},
      {QUERN_OP_SPEC_ACCEPT,
       "Accepts",
       [](Bench& b) {
         ops::spec_accept(b.g, b.i32({2, 3}), b.i32({2, 4}), b.i32({2}));
       },
       "i32 [2, 4]; i32 [2]",
       {}},
      {QUERN_OP_SPEC_ACCEPT,
       "Refuses",
       [](Bench& b) {
         ops::spec_accept(b.g, b.i32({2, 3}), b.i32({2, 3}), b.i32({2}), here());
       },
       "",
       {"target is i32 [2, 3]", "[2, 4]"}},
      {QUERN_OP_TOKEN_PUBLISH,
       "Accepts",
       [](Bench& b) {
         ops::token_publish(b.g, b.i32({3}), b.state(QUERN_I32, {1}), b.state(QUERN_I32, {8, 3}));
       },
       "i32 [8, 3]",
       {}},
      {QUERN_OP_TOKEN_PUBLISH,
       "CounterIsAnInput",
       [](Bench& b) {
         ops::token_publish(b.g, b.i32({3}), b.i32({1}), b.state(QUERN_I32, {8, 3}), here());
       },
       "",
       {"sequence_number is i32 [1]", "kind state"}},
      {QUERN_OP_TOKEN_PUBLISH,
       "RingWidth",
       [](Bench& b) {
         ops::token_publish(b.g, b.i32({3}), b.state(QUERN_I32, {1}), b.state(QUERN_I32, {8, 4}), here());
       },
       "",
       {"ring is i32 [8, 4]"}},
      {QUERN_OP_MOE_ROUTER,
       "Accepts",
       [](Bench& b) {
         ops::moe_router(b.g, b.f32({b.t, 8}), b.f32({8}), {.used = 2, .kind = 1});
       },
       "i32 [tokens<=16, 2]; f32 [tokens<=16, 2]",
       {}},
      {QUERN_OP_MOE_ROUTER,
       "MoreThanThereAre",
       [](Bench& b) {
         ops::moe_router(b.g, b.f32({b.t, 8}), no_value, {.used = 9}, here());
       },
       "",
       {"used is 9", "1 to 8"}},
      {QUERN_OP_MOE_COMBINE,
       "Accepts",
       [](Bench& b) {
         ops::moe_combine(b.g, b.f16({b.t, 2, 6}), b.f32({b.t, 2}));
       },
       "f16 [tokens<=16, 6]",
       {}},
      {QUERN_OP_MOE_COMBINE,
       "Refuses",
       [](Bench& b) {
         ops::moe_combine(b.g, b.f16({b.t, 2, 6}), b.f32({b.t, 3}), here());
       },
       "",
       {"weight is f32 [tokens<=16, 3]"}},
      {QUERN_OP_MOE_ROUTER_BACKWARD,
       "Accepts",
       [](Bench& b) {
         ops::moe_router_backward(b.g, b.f32({b.t, 8}), no_value, b.i32({b.t, 2}), b.f32({b.t, 2}), {.used = 2});
       },
       "f32 [tokens<=16, 8]",
       {}},
      {QUERN_OP_MOE_ROUTER_BACKWARD,
       "Refuses",
       [](Bench& b) {
         ops::moe_router_backward(b.g, b.f32({b.t, 8}), no_value, b.i32({b.t, 3}), b.f32({b.t, 2}), {.used = 2}, here());
       },
       "",
       {"id is i32 [tokens<=16, 3]"}},
  };
}

}  // namespace quern::test
