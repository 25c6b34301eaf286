// Fused weights of which each product takes its rows: queries, keys and values from one matrix, gate and up from another, both views
// without a copy.
#include "graphs/layers/layer_step.hpp"

namespace quern::conformance {
namespace {

int add(LayerStep& s, int x, int) {
  const std::int64_t queries = s.queries(), keys = s.keys(), wide = s.w.hidden, ffn = s.w.ffn;
  const int normed = s.norm("attn_norm", x), qkv = s.matrix("attn_qkv", queries + 2 * keys, wide);
  const auto rows_of = [&](const char* part, int a, int matrix, std::int64_t first, std::int64_t count) {
    return s.graph.node(QUERN_OP_MATMUL, s.name(part), {a, s.graph.matrix_rows(matrix, first, count)}, {rows_dim, count});
  };
  const int q = s.split(rows_of("attn_q", normed, qkv, 0, queries), s.w.heads),
            k = s.split(rows_of("attn_k", normed, qkv, queries, keys), s.w.kv_heads);
  const int v = s.split(rows_of("attn_v", normed, qkv, queries + keys, keys), s.w.kv_heads);
  const int attended = s.attend(s.rope("rope_q", q, s.w.heads, 1), s.rope("rope_k", k, s.w.kv_heads, 1), v);
  const int sum = s.add("attn_sum", x, s.product("attn_output", attended, wide, queries));
  const int again = s.norm("ffn_norm", sum), both = s.matrix("ffn_gate_up", 2 * ffn, wide);
  const int gate = rows_of("ffn_gate", again, both, 0, ffn), up = rows_of("ffn_up", again, both, ffn, ffn);
  const int active = s.graph.node(QUERN_OP_GLU, s.name("ffn_act"), {gate, up}, {rows_dim, ffn});
  return s.add("ffn_sum", sum, s.product("ffn_down", active, wide, ffn));
}

}  // namespace

extern const LayerFamily fused_weights_layer;
const LayerFamily fused_weights_layer = {"fused_weights", {256, 512, 4, 2, 64}, {1024, 2816, 8, 2, 128}, add};

}  // namespace quern::conformance
