// LLaMA: RMS norms before attention and feed-forward, rotation of neighbours, SwiGLU.
#include "graphs/layers/layer_step.hpp"

namespace quern::conformance {
namespace {

int add(LayerStep& s, int x, int) {
  const int sum = s.add("attn_sum", x, plain_attention(s, s.norm("attn_norm", x), Bias::none, 0));
  return s.add("ffn_sum", sum, s.gated(s.norm("ffn_norm", sum), 0));
}

}  // namespace

extern const LayerFamily llama_layer;
const LayerFamily llama_layer = {"llama", {256, 512, 4, 2, 64}, {1024, 2816, 8, 2, 128}, add};

}  // namespace quern::conformance
