// Softmax attention over paged keys and values.
#include "quern/graph/ops/attention.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "attention_rules.hpp"
#include "paged_rules.hpp"

namespace quern::graph {
namespace ops {

ValueId attention(Graph& graph, const AttentionInputs& in, const AttentionAttributes& how, NodeOptions options) {
  return graph.add_node(QUERN_OP_ATTENTION,
                        {in.q, in.k_cache, in.v_cache, in.block_table, in.row_slot, in.position, in.kv_len, in.mask, in.sinks},
                        Attributes()
                            .set(QUERN_KEY_SCALE, how.scale)
                            .set(QUERN_KEY_CAUSAL, how.causal)
                            .set(QUERN_KEY_WINDOW, how.window)
                            .set(QUERN_KEY_SOFTCAP, how.softcap)
                            .set(QUERN_KEY_MAX_BIAS, how.max_bias),
                        std::move(options))[0];
}

}  // namespace ops

namespace rules {

void attention(OpCall& call) {
  constexpr std::size_t q = 0, k = 1, v = 2, block_table = 3, row_slot = 4, position = 5, kv_len = 6, mask = 7, sinks = 8;
  call.dtype(q, floats);
  call.rank_is(q, 3);
  cache_rule(call, k);
  cache_rule(call, v);
  for (const std::size_t d : {0u, 1u, 2u}) call.same_dim(v, d, k, d);
  call.same_dim(k, 3, q, 2);
  head_groups_rule(call, q, 1, k, 1);
  paged_rows_rule(call, q, block_table, row_slot, position);
  call.dtype(kv_len, i32_only);
  if (call.has(kv_len)) call.shape_is(kv_len, {call.dim(block_table, 0)});
  call.dtype(mask, {QUERN_F32, QUERN_F16, QUERN_U8});
  call.rank_is(mask, 2);
  call.same_dim(mask, 0, q, 0);
  call.dtype(sinks, f32_only);
  if (call.has(sinks)) call.shape_is(sinks, {call.dim(q, 1)});
  call.positive(QUERN_KEY_SCALE);
  attention_attributes_rule(call, /*has_query_offset=*/false);
  if (call.integer(QUERN_KEY_CAUSAL) == 0 && !call.has(kv_len)) call.fail("causal is 0, so it needs its input kv_len");
  call.out(0, call.in(q).dtype, {call.dim(q, 0), call.dim(q, 1), call.dim(v, 3)});
}

}  // namespace rules

namespace gradients {

/// Its keys and values are in pages, which kv_write has written for more than this run.
void attention(GradientCall& call) { call.fail("paged attention has no gradient; build the graph with attention_dense"); }

}  // namespace gradients
}  // namespace quern::graph
