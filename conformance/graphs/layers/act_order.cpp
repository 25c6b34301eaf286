// LLaMA as files have it whose weights are quantised in the order of activations: the columns of operands are put in an order in front of products. Layers
// take turns: one order for all products of an operand, as packers write it, or one for each product.
#include "graphs/layers/layer_step.hpp"

#include <utility>

namespace quern::conformance {
namespace {

/// Columns of a [rows, n] in a random order.
int ordered(LayerStep& s, const char* product, int a, std::int64_t n) {
  const int index = s.graph.input(s.name(product) + ".order",
                                  filled(constant(QUERN_I32, {n}), "order", [n](const Tensor& t, const CounterRandom& random) {
                                    std::vector<double> columns;
                                    for (std::int64_t i = 0; i < n; ++i) columns.push_back(static_cast<double>(i));
                                    for (std::int64_t i = n; i-- > 1;) {
                                      const double at = random.uniform(static_cast<std::uint64_t>(i)) * static_cast<double>(i + 1);
                                      std::swap(columns[static_cast<std::size_t>(i)], columns[static_cast<std::size_t>(at)]);
                                    }
                                    for (std::int64_t i = 0; i < n; ++i) t.set(i, columns[static_cast<std::size_t>(i)]);
                                  }));
  return s.graph.node(QUERN_OP_TAKE, s.name(product) + ".in_order", {a, index}, {rows_dim, n});
}

int add(LayerStep& s, int x, int layer) {
  const std::int64_t wide = s.w.hidden, ffn = s.w.ffn;
  const bool shared = layer % 2 == 0;
  const int normed = s.norm("attn_norm", x), of_q = ordered(s, "attn_q", normed, wide);
  const int q = s.product("attn_q", of_q, s.queries(), wide);
  const int k = s.product("attn_k", shared ? of_q : ordered(s, "attn_k", normed, wide), s.keys(), wide);
  const int v = s.product("attn_v", shared ? of_q : ordered(s, "attn_v", normed, wide), s.keys(), wide);
  const int qr = s.rope("rope_q", s.split(q, s.w.heads), s.w.heads, 0), kr = s.rope("rope_k", s.split(k, s.w.kv_heads), s.w.kv_heads, 0);
  const int heads = ordered(s, "attn_output", s.attend(qr, kr, s.split(v, s.w.kv_heads)), s.queries());
  const int sum = s.add("attn_sum", x, s.product("attn_output", heads, wide, s.queries()));
  const int again = s.norm("ffn_norm", sum), of_gate = ordered(s, "ffn_gate", again, wide);
  const int gate = s.product("ffn_gate", of_gate, ffn, wide);
  const int up = s.product("ffn_up", shared ? of_gate : ordered(s, "ffn_up", again, wide), ffn, wide);
  const int active = s.graph.node(QUERN_OP_GLU, s.name("ffn_act"), {gate, up}, {rows_dim, ffn});
  return s.add("ffn_sum", sum, s.product("ffn_down", ordered(s, "ffn_down", active, ffn), wide, ffn));
}

}  // namespace

extern const LayerFamily act_order_layer;
const LayerFamily act_order_layer = {"act_order", {256, 512, 4, 2, 64}, {1024, 2816, 8, 2, 128}, add, nullptr, QUERN_Q4_Z128,
                                     nullptr,     QUERN_Q4_Z128};

}  // namespace quern::conformance
