// Rule cases of attention and its caches.
#include "rule_cases.hpp"

namespace quern::test {
namespace {

/// The inputs of a good call: 6 heads of 8 over 2 kv heads, pages of 4.
ops::AttentionInputs paged(Bench& b) {
  return {.q = b.f32({b.t, 6, 8}),
          .k_cache = b.state(QUERN_F16, {9, 2, 4, 8}),
          .v_cache = b.state(QUERN_F32, {9, 2, 4, 5}),
          .block_table = b.state(QUERN_I32, {3, 2}),
          .row_slot = b.i32({b.t}),
          .position = b.i32({b.t})};
}

RuleCase refused(std::string name, std::function<void(Bench&, ops::AttentionInputs&, ops::AttentionAttributes&)> change,
                 std::vector<std::string> words) {
  return {QUERN_OP_ATTENTION, std::move(name),
          [=](Bench& b) {
            ops::AttentionInputs in = paged(b);
            ops::AttentionAttributes how{.scale = 0.5};
            change(b, in, how);
            ops::attention(b.g, in, how, here());
          },
          "", std::move(words)};
}

ops::AttentionDenseInputs dense(Bench& b) { return {.q = b.f32({2, 5, 6, 8}), .k = b.f32({2, 7, 3, 8}), .v = b.f32({2, 7, 3, 4})}; }

ops::AttentionRaggedInputs ragged(Bench& b) {
  return {.q = b.f16({b.t, 6, 8}), .k = b.f16({b.t, 3, 8}), .v = b.f16({b.t, 3, 4}), .start = b.i32({b.o})};
}

RuleCase refused_ragged(std::string name, std::function<void(Bench&, ops::AttentionRaggedInputs&, ops::AttentionRaggedAttributes&)> change,
                        std::vector<std::string> words) {
  return {QUERN_OP_ATTENTION_RAGGED, std::move(name),
          [=](Bench& b) {
            ops::AttentionRaggedInputs in = ragged(b);
            ops::AttentionRaggedAttributes how{.scale = 1};
            change(b, in, how);
            ops::attention_ragged(b.g, in, how, here());
          },
          "", std::move(words)};
}

}  // namespace

std::vector<RuleCase> attention_cases() {
  return {
      {QUERN_OP_ATTENTION, "Plain", [](Bench& b) { ops::attention(b.g, paged(b), {.scale = 0.5}); }, "f32 [tokens<=16, 6, 5]", {}},
      {QUERN_OP_ATTENTION,
       "Everything",
       [](Bench& b) {
         ops::AttentionInputs in = paged(b);
         in.kv_len = b.i32({3});
         in.mask = b.in(QUERN_U8, {b.t, 8});
         in.sinks = b.f32({6});
         ops::attention(b.g, in, {.scale = 0.5, .causal = false, .window = 3, .softcap = 30, .max_bias = 8});
       },
       "f32 [tokens<=16, 6, 5]",
       {}},
      refused("HeadsWithoutGroups",
              [](Bench& b, auto& in, auto&) {
                in.q = b.f32({b.t, 5, 8});
              },
              {"5 heads", "2 kv heads"}),
      refused("HeadSize",
              [](Bench& b, auto& in, auto&) {
                in.q = b.f32({b.t, 6, 7});
              },
              {"q is f32 [tokens<=16, 6, 7]", "k_cache is f16 [9, 2, 4, 8]"}),
      refused("CachesOfOtherPages",
              [](Bench& b, auto& in, auto&) {
                in.v_cache = b.state(QUERN_F32, {9, 2, 5, 5});
              },
              {"v_cache is f32 [9, 2, 5, 5]"}),
      refused("CacheFormat",
              [](Bench& b, auto& in, auto&) {
                in.k_cache = b.state(QUERN_Q4_1, {9, 2, 4, 32});
              },
              {"k_cache is q4_1"}),
      refused("RowsDiffer", [](Bench& b, auto& in, auto&) { in.position = b.i32({b.o}); }, {"position is i32 [outputs<=4]"}),
      refused("BlockTable", [](Bench& b, auto& in, auto&) { in.block_table = b.i32({3}); }, {"block_table is i32 [3]", "2 dimensions"}),
      refused("KvLenMissing", [](Bench&, auto&, auto& how) { how.causal = false; }, {"needs its input kv_len"}),
      refused("ScaleZero", [](Bench&, auto&, auto& how) { how.scale = 0; }, {"scale is 0"}),
      refused("SoftcapNegative", [](Bench&, auto&, auto& how) { how.softcap = -1; }, {"softcap is -1"}),
      refused("Sinks", [](Bench& b, auto& in, auto&) { in.sinks = b.f32({2}); }, {"sinks is f32 [2]", "[6]"}),
      {QUERN_OP_KV_WRITE,
       "Accepts",
       [](Bench& b) {
         ops::kv_write(b.g, b.f32({b.t, 2, 32}), b.state(QUERN_I32, {3, 2}), b.i32({b.t}), b.i32({b.t}),
                       b.state(QUERN_Q8_0, {9, 2, 4, 32}));
       },
       "q8_0 [9, 2, 4, 32]",
       {}},
      {QUERN_OP_KV_WRITE,
       "CacheIsNotState",
       [](Bench& b) {
         ops::kv_write(b.g, b.f32({b.t, 2, 8}), b.i32({3, 2}), b.i32({b.t}), b.i32({b.t}), b.f32({9, 2, 4, 8}), here());
       },
       "",
       {"cache", "kind state"}},
      {QUERN_OP_KV_WRITE,
       "HeadsDiffer",
       [](Bench& b) {
         ops::kv_write(b.g, b.f32({b.t, 3, 8}), b.i32({3, 2}), b.i32({b.t}), b.i32({b.t}), b.state(QUERN_F16, {9, 2, 4, 8}), here());
       },
       "",
       {"cache is [9, 2, 4, 8] but x is f32 [tokens<=16, 3, 8]"}},
      {QUERN_OP_KV_WRITE,
       "RowsDiffer",
       [](Bench& b) {
         ops::kv_write(b.g, b.f32({b.t, 2, 8}), b.i32({3, 2}), b.i32({16}), b.i32({b.t}), b.state(QUERN_F16, {9, 2, 4, 8}), here());
       },
       "",
       {"row_slot is i32 [16]"}},
      {QUERN_OP_KV_COPY,
       "Accepts",
       [](Bench& b) {
         ops::kv_copy(b.g, b.state(QUERN_F16, {9, 2, 4, 8}), b.i32({2}), b.i32({2}));
       },
       "f16 [9, 2, 4, 8]",
       {}},
      {QUERN_OP_KV_COPY,
       "Counts",
       [](Bench& b) {
         ops::kv_copy(b.g, b.state(QUERN_F16, {9, 2, 4, 8}), b.i32({2}), b.i32({3}), here());
       },
       "",
       {"page_to is i32 [3]"}},
      {QUERN_OP_KV_COPY,
       "BetweenCaches",
       [](Bench& b) {
         graph::NodeOptions options = here();
         options.outputs = {b.state(QUERN_F16, {9, 2, 4, 8})};
         b.g.add_node(QUERN_OP_KV_COPY, {b.state(QUERN_F16, {9, 2, 4, 8}), b.i32({2}), b.i32({2})}, {}, options);
       },
       "",
       {"same value"}},
      {QUERN_OP_KV_MOVE,
       "Accepts",
       [](Bench& b) {
         ops::kv_move(b.g, b.state(QUERN_F16, {9, 2, 4, 8}), b.i32({3, 2}), b.i32({5}), b.i32({5}), b.i32({5}));
       },
       "f16 [9, 2, 4, 8]",
       {}},
      {QUERN_OP_KV_MOVE,
       "Counts",
       [](Bench& b) {
         ops::kv_move(b.g, b.state(QUERN_F16, {9, 2, 4, 8}), b.i32({3, 2}), b.i32({5}), b.i32({5}), b.i32({4}), here());
       },
       "",
       {"to is i32 [4]"}},
      {QUERN_OP_ATTENTION_DENSE,
       "Accepts",
       [](Bench& b) { ops::attention_dense(b.g, dense(b), {.scale = 1}); },
       "f32 [2, 5, 6, 4]; f32 [2, 5, 6]",
       {}},
      {QUERN_OP_ATTENTION_DENSE,
       "WithoutLse",
       [](Bench& b) {
         graph::NodeOptions options;
         options.skip_outputs = 1u << 1;
         ops::attention_dense(b.g, dense(b), {.scale = 1}, options);
       },
       "f32 [2, 5, 6, 4]; -",
       {}},
      {QUERN_OP_ATTENTION_DENSE,
       "MaskDoesNotFit",
       [](Bench& b) {
         ops::AttentionDenseInputs in = dense(b);
         in.mask = b.f32({7, 5});
         ops::attention_dense(b.g, in, {.scale = 1}, here());
       },
       "",
       {"mask is f32 [7, 5]", "[2, 6, 5, 7]"}},
      {QUERN_OP_ATTENTION_DENSE,
       "BatchesDiffer",
       [](Bench& b) {
         ops::AttentionDenseInputs in = dense(b);
         in.k = b.f32({1, 7, 3, 8});
         ops::attention_dense(b.g, in, {.scale = 1}, here());
       },
       "",
       {"k is f32 [1, 7, 3, 8]"}},
      {QUERN_OP_ATTENTION_BACKWARD,
       "Accepts",
       [](Bench& b) {
         ops::attention_backward(b.g, dense(b), {b.f32({2, 5, 6, 4}), b.f32({2, 5, 6})}, b.f32({2, 5, 6, 4}), {.scale = 1});
       },
       "f32 [2, 5, 6, 8]; f32 [2, 7, 3, 8]; f32 [2, 7, 3, 4]",
       {}},
      {QUERN_OP_ATTENTION_BACKWARD,
       "LseShape",
       [](Bench& b) {
         ops::attention_backward(b.g, dense(b), {b.f32({2, 5, 6, 4}), b.f32({2, 6, 5})}, b.f32({2, 5, 6, 4}), {.scale = 1}, here());
       },
       "",
       {"lse is f32 [2, 6, 5]", "[2, 5, 6]"}},
      {QUERN_OP_ATTENTION_RAGGED,
       "Accepts",
       [](Bench& b) { ops::attention_ragged(b.g, ragged(b), {.scale = 1, .causal = false, .window = 3, .softcap = 30}); },
       "f16 [tokens<=16, 6, 4]; f32 [tokens<=16, 6]",
       {}},
      refused_ragged("RowsDiffer",
                     [](Bench& b, auto& in, auto&) {
                       in.v = b.f16({16, 3, 4});
                     },
                     {"v is f16 [16, 3, 4]", "q is f16 [tokens<=16, 6, 8]"}),
      refused_ragged("HeadsWithoutGroups",
                     [](Bench& b, auto& in, auto&) {
                       in.q = b.f16({b.t, 5, 8});
                     },
                     {"5 heads", "3 kv heads"}),
      refused_ragged("DtypesDiffer",
                     [](Bench& b, auto& in, auto&) {
                       in.k = b.f32({b.t, 3, 8});
                     },
                     {"k is f32"}),
      refused_ragged("StartOfNoElement", [](Bench& b, auto& in, auto&) { in.start = b.i32({0}); },
                     {"start is i32 [0]", "the end of the rows"}),
      refused_ragged("StartIsNoList",
                     [](Bench& b, auto& in, auto&) {
                       in.start = b.i32({2, 2});
                     },
                     {"start is i32 [2, 2]"}),
      refused_ragged("WindowNegative", [](Bench&, auto&, auto& how) { how.window = -1; }, {"window is -1"}),
      {QUERN_OP_ATTENTION_RAGGED_BACKWARD,
       "Accepts",
       [](Bench& b) {
         const ValueId y = b.f16({b.t, 6, 4});
         ops::attention_ragged_backward(b.g, ragged(b), {y, b.f32({b.t, 6})}, y, {.scale = 1});
       },
       "f16 [tokens<=16, 6, 8]; f16 [tokens<=16, 3, 8]; f16 [tokens<=16, 3, 4]",
       {}},
      {QUERN_OP_ATTENTION_RAGGED_BACKWARD,
       "LseShape",
       [](Bench& b) {
         const ValueId y = b.f16({b.t, 6, 4});
         ops::attention_ragged_backward(b.g, ragged(b), {y, b.f32({b.t, 3})}, y, {.scale = 1}, here());
       },
       "",
       {"lse is f32 [tokens<=16, 3]", "[tokens<=16, 6]"}},
  };
}

}  // namespace quern::test
