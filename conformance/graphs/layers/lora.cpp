// LLaMA with an adapter on each of its seven products. Rows have the first adapter, the second or none.
#include "graphs/layers/layer_step.hpp"
#include "ops/given.hpp"

#include <cmath>
#include <iterator>
#include <limits>

namespace quern::conformance {
namespace {

constexpr std::int64_t ranks[] = {4, 16};
constexpr std::int64_t gap = 3;  // elements between adapters that none has: NaN

/// The product and, behind it, the adapter of each row.
int adapted(LayerStep& s, const char* part, int a, std::int64_t n, std::int64_t k, int slot) {
  GraphBuilder& g = s.graph;
  std::vector<double> table;
  std::int64_t at = gap;
  for (const std::int64_t rank : ranks) {
    const std::int64_t b = at + rank * k + gap;
    for (const double entry :
         {static_cast<double>(at), static_cast<double>(b), static_cast<double>(rank), bits_as_i32(rank == 4 ? 0.5f : 2.0f)})
      table.push_back(entry);
    at = b + rank * n + gap;
  }
  const double size_a = 1 / std::sqrt(static_cast<double>(k)), size_b = 1 / std::sqrt(static_cast<double>(ranks[1]));
  const int pool = g.input(s.name(part) + ".adapters",
                           filled(input(QUERN_F16, {at}), "adapters", [n, k, size_a, size_b](const Tensor& t, const CounterRandom& random) {
                             for (std::int64_t i = 0; i < t.count(); ++i) t.set(i, std::numeric_limits<double>::quiet_NaN());
                             std::int64_t from = gap;
                             const auto fill_next = [&](std::int64_t count, double size) {
                               for (std::int64_t i = from; i < from + count; ++i)
                                 t.set(i, size * random.gaussian(static_cast<std::uint64_t>(i)));
                               from += count + gap;
                             };
                             for (const std::int64_t rank : ranks) fill_next(rank * k, size_a), fill_next(rank * n, size_b);
                           }));
  const int places = g.input(s.name(part) + ".places", given(input(QUERN_I32, {std::ssize(ranks), 4}), "places", table));
  const int base = s.product(part, a, n, k);
  return g.node(QUERN_OP_LORA_MATMUL, s.name(part) + ".adapted", {a, pool, places, slot, base}, {rows_dim, n});
}

int add(LayerStep& s, int x, int) {
  const std::int64_t wide = s.w.hidden, ffn = s.w.ffn;
  const int slot =
      s.graph.input(s.name("adapter"), filled(input(QUERN_I32, {rows_dim}), "adapters", [](const Tensor& t, const CounterRandom&) {
                      for (std::int64_t i = 0; i < t.count(); ++i) t.set(i, static_cast<double>((i + 1) % 3 - 1));
                    }));
  const int normed = s.norm("attn_norm", x);
  const int q = adapted(s, "attn_q", normed, s.queries(), wide, slot), k = adapted(s, "attn_k", normed, s.keys(), wide, slot);
  const int v = adapted(s, "attn_v", normed, s.keys(), wide, slot);
  const int qr = s.rope("rope_q", s.split(q, s.w.heads), s.w.heads, 0), kr = s.rope("rope_k", s.split(k, s.w.kv_heads), s.w.kv_heads, 0);
  const int sum = s.add("attn_sum", x, adapted(s, "attn_output", s.attend(qr, kr, s.split(v, s.w.kv_heads)), wide, s.queries(), slot));
  const int again = s.norm("ffn_norm", sum), gate = adapted(s, "ffn_gate", again, ffn, wide, slot),
            up = adapted(s, "ffn_up", again, ffn, wide, slot);
  const int active = s.graph.node(QUERN_OP_GLU, s.name("ffn_act"), {gate, up}, {rows_dim, ffn});
  return s.add("ffn_sum", sum, adapted(s, "ffn_down", active, wide, ffn, slot));
}

}  // namespace

extern const LayerFamily lora_layer;
const LayerFamily lora_layer = {"lora", {256, 512, 4, 2, 64}, {1024, 2816, 8, 2, 128}, add};

}  // namespace quern::conformance
