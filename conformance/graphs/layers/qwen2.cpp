// Qwen2: as LLaMA, with biases of queries, keys and values, and rotation of halves.
#include "graphs/layers/layer_step.hpp"

namespace quern::conformance {
namespace {

int add(LayerStep& s, int x, int) {
  const int normed = s.norm("attn_norm", x);
  const int q = s.product("attn_q", normed, s.queries(), s.w.hidden, Bias::f32),
            k = s.product("attn_k", normed, s.keys(), s.w.hidden, Bias::f32);
  const int v = s.product("attn_v", normed, s.keys(), s.w.hidden, Bias::f32);
  const int qr = s.rope("rope_q", s.split(q, s.w.heads), s.w.heads, 1), kr = s.rope("rope_k", s.split(k, s.w.kv_heads), s.w.kv_heads, 1);
  const int sum = s.add("attn_sum", x, s.product("attn_output", s.attend(qr, kr, s.split(v, s.w.kv_heads)), s.w.hidden, s.queries()));
  return s.add("ffn_sum", sum, s.gated(s.norm("ffn_norm", sum), 0));
}

}  // namespace

extern const LayerFamily qwen2_layer;
const LayerFamily qwen2_layer = {"qwen2", {256, 512, 4, 2, 64}, {1024, 2816, 8, 2, 128}, add};

}  // namespace quern::conformance
