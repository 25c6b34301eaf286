// OLMo 2: no norm before products but one behind each block; norms of all queries and of all keys before the heads part.
#include "graphs/layers/layer_step.hpp"

namespace quern::conformance {
namespace {

// Norms before products make of large random weights what trained models have. Here that is done where the rows come in, and behind the blocks.
int add(LayerStep& s, int rows, int layer) {
  const int x = layer == 0 ? s.norm("embedded", rows) : rows;
  const int q = s.product("attn_q", x, s.queries(), s.w.hidden), k = s.product("attn_k", x, s.keys(), s.w.hidden),
            v = s.product("attn_v", x, s.keys(), s.w.hidden);
  const int qn = s.split(s.unit_norm("attn_q_norm", q, {rows_dim, s.queries()}), s.w.heads),
            kn = s.split(s.unit_norm("attn_k_norm", k, {rows_dim, s.keys()}), s.w.kv_heads);
  const int attended = s.attend(s.rope("rope_q", qn, s.w.heads, 1), s.rope("rope_k", kn, s.w.kv_heads, 1), s.split(v, s.w.kv_heads));
  const int projected = s.norm("post_attn_norm", s.product("attn_output", attended, s.w.hidden, s.queries()));
  const int sum = s.add("attn_sum", x, projected);
  return s.add("ffn_sum", sum, s.norm("post_ffn_norm", s.gated(sum, 0)));
}

}  // namespace

extern const LayerFamily olmo2_layer;
const LayerFamily olmo2_layer = {"olmo2", {256, 512, 4, 2, 64}, {1024, 2816, 8, 2, 128}, add};

}  // namespace quern::conformance
