// Granite: as LLaMA, with four multipliers: of embeddings, of attention's dot products in place of the root of a head, of what a block adds to
// its residual, and of logits.
#include "graphs/layers/layer_step.hpp"

namespace quern::conformance {
namespace {

constexpr double of_embedding = 12, of_attention = 0.015625, of_residual = 0.21875, of_logits = 0.0625;

int add(LayerStep& s, int x, int) {
  LayerStep::Attending how;
  how.scale = of_attention;
  const int sum = s.add("attn_sum", x, plain_attention(s, s.norm("attn_norm", x), Bias::none, 0, how), of_residual);
  return s.add("ffn_sum", sum, s.gated(s.norm("ffn_norm", sum), 0), of_residual);
}

int scaled(LayerStep& s, int logits) {
  return s.graph.node(QUERN_OP_SCALE, "logits", {logits}, {s.dim, s.w.head_outputs}, {{QUERN_KEY_ALPHA, of_logits}});
}

int embedded(LayerStep& s, int x) {
  return s.graph.node(QUERN_OP_SCALE, "embedding", {x}, {rows_dim, s.w.hidden}, {{QUERN_KEY_ALPHA, of_embedding}});
}

}  // namespace

extern const LayerFamily granite_layer;
const LayerFamily granite_layer = {"granite", {256, 512, 4, 2, 64}, {1024, 2816, 8, 2, 128}, add, scaled, QUERN_Q4_K, embedded};

}  // namespace quern::conformance
