// gpt-oss: biases of products, router and experts, a sink for each head, every other layer sees a window, and a SwiGLU that is cut.
#include "graphs/layers/layer_step.hpp"

namespace quern::conformance {
namespace {

int add(LayerStep& s, int x, int index) {
  const int normed = s.norm("attn_norm", x);
  const int q = s.split(s.product("attn_q", normed, s.queries(), s.w.hidden, Bias::f32), s.w.heads);
  const int k = s.split(s.product("attn_k", normed, s.keys(), s.w.hidden, Bias::f32), s.w.kv_heads);
  const int v = s.split(s.product("attn_v", normed, s.keys(), s.w.hidden, Bias::f32), s.w.kv_heads);
  LayerStep::Attending how;
  how.window = index % 2 == 0 ? 6 : 0;
  how.sinks = s.graph.weight(s.name("attn_sinks"), QUERN_F32, {s.w.heads});
  const int attended = s.attend(s.rope("rope_q", q, s.w.heads, 1), s.rope("rope_k", k, s.w.kv_heads, 1), v, how);
  const int sum = s.add("attn_sum", x, s.product("attn_output", attended, s.w.hidden, s.queries(), Bias::f32));
  Experts experts;
  experts.biases = true;
  experts.glu = {{QUERN_KEY_ALPHA, 1.703125}, {QUERN_KEY_LIMIT, 1.5}};
  return s.add("ffn_sum", sum, add_experts(s, s.norm("ffn_norm", sum), experts));
}

}  // namespace

extern const LayerFamily gpt_oss_layer;
const LayerFamily gpt_oss_layer = {"gpt_oss", {256, 256, 4, 2, 64, 0, 4, 2}, {1024, 1024, 16, 4, 64, 0, 32, 4}, add};

}  // namespace quern::conformance
