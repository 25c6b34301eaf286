// Gemma 3: norms before and behind attention and feed-forward, norms of queries and keys, GeGLU by tanh, heads of 256. Most layers see a
// window; the others turn by angles of their own.
#include "graphs/layers/layer_step.hpp"

namespace quern::conformance {
namespace {

int add(LayerStep& s, int x, int index) {
  const bool local = index % 2 == 0;
  const int normed = s.norm("attn_norm", x);
  const int q = s.split(s.product("attn_q", normed, s.queries(), s.w.hidden), s.w.heads),
            k = s.split(s.product("attn_k", normed, s.keys(), s.w.hidden), s.w.kv_heads);
  const int v = s.split(s.product("attn_v", normed, s.keys(), s.w.hidden), s.w.kv_heads);
  const int qn = s.unit_norm("attn_q_norm", q, {rows_dim, s.w.heads, s.w.head}),
            kn = s.unit_norm("attn_k_norm", k, {rows_dim, s.w.kv_heads, s.w.head});
  const int angles = local ? s.rows.angles : add_angles(s.graph, s.name("rope"), s.batch, s.w.head, 1e6);
  LayerStep::Attending how;
  how.window = local ? 6 : 0;
  const int attended = s.attend(s.rope("rope_q", qn, s.w.heads, 1, angles), s.rope("rope_k", kn, s.w.kv_heads, 1, angles), v, how);
  const int projected = s.unit_norm("post_attn_norm", s.product("attn_output", attended, s.w.hidden, s.queries()), {rows_dim, s.w.hidden});
  const int sum = s.add("attn_sum", x, projected);
  return s.add("ffn_sum", sum, s.unit_norm("post_ffn_norm", s.gated(s.norm("ffn_norm", sum), 2), {rows_dim, s.w.hidden}));
}

}  // namespace

extern const LayerFamily gemma3_layer;
const LayerFamily gemma3_layer = {"gemma3", {256, 512, 2, 1, 256}, {1024, 2816, 4, 1, 256}, add};

}  // namespace quern::conformance
