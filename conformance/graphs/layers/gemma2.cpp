// Gemma 2: norms before and behind attention and feed-forward, whose weights have 1 added; GeGLU by tanh; heads of 256; soft caps of
// scores and logits; every other layer sees a window.
#include "graphs/layers/layer_step.hpp"

namespace quern::conformance {
namespace {

constexpr double offset = 1;

int add(LayerStep& s, int x, int index) {
  const int normed = s.norm("attn_norm", x, offset);
  const int q = s.split(s.product("attn_q", normed, s.queries(), s.w.hidden), s.w.heads),
            k = s.split(s.product("attn_k", normed, s.keys(), s.w.hidden), s.w.kv_heads);
  const int v = s.split(s.product("attn_v", normed, s.keys(), s.w.hidden), s.w.kv_heads);
  LayerStep::Attending how;
  how.window = index % 2 == 0 ? 6 : 0;
  how.softcap = 2;
  const int attended = s.attend(s.rope("rope_q", q, s.w.heads, 1), s.rope("rope_k", k, s.w.kv_heads, 1), v, how);
  const int projected =
      s.unit_norm("post_attn_norm", s.product("attn_output", attended, s.w.hidden, s.queries()), {rows_dim, s.w.hidden}, offset);
  const int sum = s.add("attn_sum", x, projected);
  const int forward = s.unit_norm("post_ffn_norm", s.gated(s.norm("ffn_norm", sum, offset), 2), {rows_dim, s.w.hidden}, offset);
  return s.add("ffn_sum", sum, forward);
}

int capped(LayerStep& s, int logits) {
  const Dims dims = {s.dim, s.w.head_outputs};
  const int small = s.graph.node(QUERN_OP_SCALE, "logits_over_cap", {logits}, dims, {{QUERN_KEY_ALPHA, 0.03125}});
  const int bent = s.graph.node(QUERN_OP_TANH, "logits_bent", {small}, dims);
  return s.graph.node(QUERN_OP_SCALE, "logits", {bent}, dims, {{QUERN_KEY_ALPHA, 32}});
}

}  // namespace

extern const LayerFamily gemma2_layer;
const LayerFamily gemma2_layer = {"gemma2", {256, 512, 2, 1, 256}, {1024, 2816, 4, 2, 256}, add, capped};

}  // namespace quern::conformance
