// Qwen3: as LLaMA, with a norm of each head of queries and keys before the rotation of halves.
#include "graphs/layers/layer_step.hpp"

namespace quern::conformance {
namespace {

int add(LayerStep& s, int x, int) {
  const int normed = s.norm("attn_norm", x);
  const int q = s.split(s.product("attn_q", normed, s.queries(), s.w.hidden), s.w.heads),
            k = s.split(s.product("attn_k", normed, s.keys(), s.w.hidden), s.w.kv_heads);
  const int v = s.split(s.product("attn_v", normed, s.keys(), s.w.hidden), s.w.kv_heads);
  const int qn = s.unit_norm("attn_q_norm", q, {rows_dim, s.w.heads, s.w.head}),
            kn = s.unit_norm("attn_k_norm", k, {rows_dim, s.w.kv_heads, s.w.head});
  const int attended = s.attend(s.rope("rope_q", qn, s.w.heads, 1), s.rope("rope_k", kn, s.w.kv_heads, 1), v);
  const int sum = s.add("attn_sum", x, s.product("attn_output", attended, s.w.hidden, s.queries()));
  return s.add("ffn_sum", sum, s.gated(s.norm("ffn_norm", sum), 0));
}

}  // namespace

extern const LayerFamily qwen3_layer;
const LayerFamily qwen3_layer = {"qwen3", {256, 512, 4, 2, 64}, {1024, 2816, 8, 2, 128}, add};

}  // namespace quern::conformance
