// Phi-3: queries, keys and values are columns of one product, gate and up those of another; heads of 96.
#include "graphs/layers/layer_step.hpp"

namespace quern::conformance {
namespace {

int add(LayerStep& s, int x, int) {
  const std::int64_t queries = s.queries(), keys = s.keys();
  const int qkv = s.product("attn_qkv", s.norm("attn_norm", x), queries + 2 * keys, s.w.hidden);
  const int q = s.graph.columns(qkv, 0, {rows_dim, s.w.heads, s.w.head}),
            k = s.graph.columns(qkv, queries, {rows_dim, s.w.kv_heads, s.w.head});
  const int v = s.graph.columns(qkv, queries + keys, {rows_dim, s.w.kv_heads, s.w.head});
  const int attended = s.attend(s.rope("rope_q", q, s.w.heads, 1), s.rope("rope_k", k, s.w.kv_heads, 1), v);
  const int sum = s.add("attn_sum", x, s.product("attn_output", attended, s.w.hidden, queries));
  const int both = s.product("ffn_up", s.norm("ffn_norm", sum), 2 * s.w.ffn, s.w.hidden);
  const int gate = s.graph.columns(both, 0, {rows_dim, s.w.ffn}), up = s.graph.columns(both, s.w.ffn, {rows_dim, s.w.ffn});
  const int active = s.graph.node(QUERN_OP_GLU, s.name("ffn_act"), {gate, up}, {rows_dim, s.w.ffn});
  return s.add("ffn_sum", sum, s.product("ffn_down", active, s.w.hidden, s.w.ffn));
}

}  // namespace

extern const LayerFamily phi3_layer;
const LayerFamily phi3_layer = {"phi3", {256, 512, 8, 4, 96}, {768, 2048, 8, 8, 96}, add};

}  // namespace quern::conformance
