// A small decoder with its loss, for tests of gradients.
#pragma once

#include "gradient_bench.hpp"

namespace quern::test {

/// Two layers of a decoder over ragged tokens, its loss over labelled rows.
struct Decoder {
  enum class Trained { all, adapters };
  Trained trained = Trained::all;
  bool head_norms = false, biases = false;  // as qwen3 and qwen2 have them
  double dropout = 0;                       // of the adapters' input
  quern_dtype base = QUERN_F32;             // frozen weights

  static constexpr std::int64_t layers = 2, heads = 4, kv_heads = 2, vocab = 11, rank = 2, rows = 3;
  std::int64_t hidden = 16, head = 4, ffn = 24;

  explicit Decoder(GradientBench& bench) : b(bench) {}
  GradientBench& b;
  ValueId seed = no_value, step = no_value, flat = no_value, position = no_value, table = no_value;
  std::int64_t used = 0, salt = 0;
  std::vector<std::uint32_t> starts;

  ValueId weight(Shape shape) {
    if (trained == Trained::all) return b.wanted(b.activations, shape, -0.4, 0.4);
    return b.constant(base, shape);
  }
  ValueId vector(std::int64_t n) { return trained == Trained::all ? b.f32({n}, 0.5, 1.5) : b.constant(QUERN_F32, {n}); }

  /// The next [n, k] of the flat state of adapters.
  ValueId slice(std::int64_t n, std::int64_t k) {
    const auto offset = static_cast<std::uint64_t>(4 * used);
    used += n * k;
    return b.g.view(flat, {n, k}, {4 * k, 4}, offset);
  }
  ValueId adapted(ValueId x, std::int64_t k, std::int64_t n) {
    ValueId bias = biases ? vector(n) : no_value;
    const ValueId y = ops::matmul(b.g, x, weight({n, k}), bias, no_value, {});
    if (trained == Trained::all) return y;
    const ValueId dropped = dropout > 0 ? ops::dropout(b.g, x, seed, step, dropout, salt++) : x;
    const ValueId u = ops::matmul(b.g, dropped, slice(rank, k));
    return ops::matmul(b.g, u, slice(n, rank), no_value, y, {.alpha = 0.5});
  }
  ValueId norm(ValueId x, std::int64_t n) { return ops::rms_norm(b.g, x, vector(n), {.epsilon = 1e-3}); }
  ValueId rotated(ValueId x, std::int64_t count) {
    ValueId seen = b.g.reshape(x, {b.tokens, count, head});
    if (head_norms) seen = norm(seen, head);
    return b.g.reshape(ops::rope(b.g, seen, position, table, {.mode = 1}), {1, b.tokens, count, head});
  }
  ValueId layer(ValueId x) {
    const ValueId n1 = norm(x, hidden);
    const ValueId q = rotated(adapted(n1, hidden, heads * head), heads), k = rotated(adapted(n1, hidden, kv_heads * head), kv_heads);
    const ValueId v = b.g.reshape(adapted(n1, hidden, kv_heads * head), {1, b.tokens, kv_heads, head});
    const ValueId y = ops::attention_dense(b.g, {.q = q, .k = k, .v = v}, {.scale = 0.35}).y;
    const ValueId x2 = ops::add(b.g, x, adapted(b.g.reshape(y, {b.tokens, heads * head}), heads * head, hidden));
    const ValueId n2 = norm(x2, hidden);
    const ValueId active = ops::glu(b.g, adapted(n2, hidden, ffn), adapted(n2, hidden, ffn));
    return ops::add(b.g, x2, adapted(active, ffn, hidden));
  }
  void build() {
    if (trained == Trained::adapters) {
      const std::int64_t of_layer =
          rank * (hidden + heads * head + 2 * (hidden + kv_heads * head) + heads * head + hidden + 2 * (hidden + ffn) + ffn + hidden);
      flat = b.wanted(QUERN_F32, {layers * of_layer}, -0.3, 0.3);
      seed = b.integers(QUERN_U32, {2}, {3, 4}), step = b.i32({1}, {6});
    }
    position = b.i32({b.tokens}, {0, 1, 2, 3, 4});
    table = ops::rope_table(b.g, {8, head / 2, 2}, no_value, no_value, {.base = 10});
    const ValueId embedding = weight({vocab, hidden});
    graph::NodeOptions as{};
    as.output_dtype = b.activations;
    ValueId x = ops::get_rows(b.g, embedding, b.i32({b.tokens}, {1, 9, 4, 9, 0}), as);
    for (std::int64_t l = 0; l < layers; ++l) {
      starts.push_back(static_cast<std::uint32_t>(b.g.nodes().size()));
      x = layer(x);
    }
    starts.push_back(static_cast<std::uint32_t>(b.g.nodes().size()));
    const ValueId labelled = ops::get_rows(b.g, x, b.i32({rows}, {1, 2, 4}), as);
    as.output_dtype = QUERN_F32;
    const ValueId logits = ops::matmul(b.g, norm(labelled, hidden), embedding, as);  // tied
    b.loss(ops::cross_entropy(b.g, logits, b.i32({rows}, {4, 9, 10})).loss);
  }
};

}  // namespace quern::test
