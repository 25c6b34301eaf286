// Phi-2: one layer norm before attention and feed-forward side by side, biases everywhere, GELU by tanh, heads of 80 of which rope turns
// the first 32.
#include "graphs/layers/layer_step.hpp"

namespace quern::conformance {
namespace {

int add(LayerStep& s, int x, int) {
  const int normed = s.layer_norm("attn_norm", x), attended = plain_attention(s, normed, Bias::f32, 1);
  const int up = s.product("ffn_up", normed, s.w.ffn, s.w.hidden, Bias::f32);
  const int active = s.graph.node(QUERN_OP_GELU, s.name("ffn_act"), {up}, {rows_dim, s.w.ffn}, {{QUERN_KEY_KIND, 1}});
  const int forward = s.product("ffn_down", active, s.w.hidden, s.w.ffn, Bias::f32);
  return s.add("ffn_sum", s.add("attn_sum", attended, forward), x);
}

}  // namespace

extern const LayerFamily phi2_layer;
const LayerFamily phi2_layer = {"phi2", {256, 512, 4, 4, 80, 32}, {1280, 5120, 16, 16, 80, 32}, add, nullptr, QUERN_Q8_0};

}  // namespace quern::conformance
