// Granite: as LLaMA; what a block adds to its residual is scaled, and the logits are.
#include "graphs/layers/layer_step.hpp"

namespace quern::conformance {
namespace {

constexpr double of_residual = 0.21875;

int add(LayerStep& s, int x, int) {
  const int sum = s.add("attn_sum", x, plain_attention(s, s.norm("attn_norm", x), Bias::none, 0), of_residual);
  return s.add("ffn_sum", sum, s.gated(s.norm("ffn_norm", sum), 0), of_residual);
}

int scaled(LayerStep& s, int logits) {
  return s.graph.node(QUERN_OP_SCALE, "logits", {logits}, {rows_dim, s.w.head_outputs}, {{QUERN_KEY_ALPHA, 0.0625}});
}

}  // namespace

extern const LayerFamily granite_layer;
const LayerFamily granite_layer = {"granite", {256, 512, 4, 2, 64}, {1024, 2816, 8, 2, 128}, add, scaled};

}  // namespace quern::conformance
