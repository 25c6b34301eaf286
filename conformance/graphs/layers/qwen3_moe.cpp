// Qwen3 with experts, and beside them, as Qwen2's have it, a shared expert under a gate of its own: queries and keys have norms.
#include "graphs/layers/layer_step.hpp"

namespace quern::conformance {
namespace {

/// A feed-forward of all rows, times the sigmoid of one number a row.
int shared_expert(LayerStep& s, int normed) {
  const int gate = s.product("ffn_gate_inp_shexp", normed, 1, s.w.hidden);
  const int share = s.graph.node(QUERN_OP_SIGMOID, s.name("ffn_share"), {gate}, {rows_dim, 1});
  return s.graph.node(QUERN_OP_MUL, s.name("ffn_shared"), {s.gated(normed, 0), share}, {rows_dim, s.w.hidden});
}

int add(LayerStep& s, int x, int) {
  const int normed = s.norm("attn_norm", x);
  const int q = s.split(s.product("attn_q", normed, s.queries(), s.w.hidden), s.w.heads),
            k = s.split(s.product("attn_k", normed, s.keys(), s.w.hidden), s.w.kv_heads);
  const int v = s.split(s.product("attn_v", normed, s.keys(), s.w.hidden), s.w.kv_heads);
  const int qn = s.unit_norm("attn_q_norm", q, {rows_dim, s.w.heads, s.w.head}),
            kn = s.unit_norm("attn_k_norm", k, {rows_dim, s.w.kv_heads, s.w.head});
  const int attended = s.attend(s.rope("rope_q", qn, s.w.heads, 1), s.rope("rope_k", kn, s.w.kv_heads, 1), v);
  const int sum = s.add("attn_sum", x, s.product("attn_output", attended, s.w.hidden, s.queries()));
  const int again = s.norm("ffn_norm", sum);
  return s.add("ffn_sum", sum, s.add("ffn_experts", add_experts(s, again, {}), shared_expert(s, again)));
}

}  // namespace

extern const LayerFamily qwen3_moe_layer;
const LayerFamily qwen3_moe_layer = {"qwen3_moe", {256, 256, 4, 2, 64, 0, 8, 3}, {1024, 768, 8, 2, 128, 0, 32, 8}, add};

}  // namespace quern::conformance
