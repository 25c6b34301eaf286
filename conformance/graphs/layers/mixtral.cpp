// Mixtral: as LLaMA, with experts in place of the feed-forward.
#include "graphs/layers/layer_step.hpp"

namespace quern::conformance {
namespace {

int add(LayerStep& s, int x, int) {
  const int sum = s.add("attn_sum", x, plain_attention(s, s.norm("attn_norm", x), Bias::none, 0));
  return s.add("ffn_sum", sum, add_experts(s, s.norm("ffn_norm", sum), {}));
}

}  // namespace

extern const LayerFamily mixtral_layer;
const LayerFamily mixtral_layer = {"mixtral", {256, 256, 4, 2, 64, 0, 4, 2}, {1024, 1024, 8, 2, 128, 0, 8, 2}, add};

}  // namespace quern::conformance
