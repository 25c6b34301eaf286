// GPT-NeoX: attention and feed-forward side by side behind layer norms of their own, biases everywhere, GELU, heads of which rope turns a
// quarter.
#include "graphs/layers/layer_step.hpp"

namespace quern::conformance {
namespace {

int add(LayerStep& s, int x, int) {
  const int attended = plain_attention(s, s.layer_norm("attn_norm", x), Bias::f32, 1), normed = s.layer_norm("ffn_norm", x);
  const int up = s.product("ffn_up", normed, s.w.ffn, s.w.hidden, Bias::f32);
  const int active = s.graph.node(QUERN_OP_GELU, s.name("ffn_act"), {up}, {rows_dim, s.w.ffn});
  const int forward = s.product("ffn_down", active, s.w.hidden, s.w.ffn, Bias::f32);
  return s.add("ffn_sum", s.add("attn_sum", x, attended), forward);
}

}  // namespace

extern const LayerFamily gpt_neox_layer;
const LayerFamily gpt_neox_layer = {"gpt_neox", {256, 512, 4, 4, 64, 16}, {1024, 4096, 16, 16, 64, 16}, add};

}  // namespace quern::conformance
