// Gradients of whole models, by central differences, and checkpointing: the same bits from less memory.
#include "gradient_bench.hpp"

#include <algorithm>
#include <bit>

namespace quern::test {
namespace {

using B = GradientBench;

/// Two layers of a decoder over ragged tokens, its loss over labelled rows.
struct Decoder {
  enum class Trained { all, adapters };
  Trained trained = Trained::all;
  bool head_norms = false, biases = false;  // as qwen3 and qwen2 have them
  double dropout = 0;                       // of the adapters' input
  quern_dtype base = QUERN_F32;             // frozen weights

  static constexpr std::int64_t layers = 2, hidden = 32, heads = 4, kv_heads = 2, head = 8, ffn = 64, vocab = 11, rank = 2, rows = 3;

  explicit Decoder(B& bench) : b(bench) {}
  B& b;
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
      constexpr std::int64_t of_layer = rank * (hidden + heads * head + 2 * (hidden + kv_heads * head) + heads * head + hidden +
                                                2 * (hidden + ffn) + ffn + hidden);
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

TEST(ModelGradients, OfEveryWeightOfALlama) {
  for (const bool accumulate : {false, true}) {
    B b(QUERN_F32, accumulate);
    Decoder(b).build();
    b.check();
  }
}

TEST(ModelGradients, OfEveryWeightOfAQwen3WithBiasesInSixteenBits) {
  B b(QUERN_BF16, /*accumulate=*/true);
  Decoder model(b);
  model.head_norms = model.biases = true;
  model.build();
  b.check();
}

TEST(ModelGradients, OfAdaptersInOneFlatStateOverBlocks) {
  for (const bool accumulate : {false, true}) {
    B b(QUERN_F32, accumulate);
    Decoder model(b);
    model.trained = Decoder::Trained::adapters;
    model.base = QUERN_Q8_0;
    model.head_norms = true;
    model.dropout = 0.3;
    model.build();
    b.check();
  }
}

/// The largest sum of bytes of internal values that are alive at one node, in the order of nodes.
std::uint64_t peak_bytes(const graph::Graph& g) {
  std::map<ValueId, std::size_t> last;
  for (std::size_t n = 0; n < g.nodes().size(); ++n)
    for (const auto* list : {&g.nodes()[n].inputs, &g.nodes()[n].outputs})
      for (const ValueId id : *list)
        if (id != no_value && g.value(g.root(id)).kind == QUERN_VALUE_INTERNAL) last[g.root(id)] = n;
  std::map<ValueId, std::uint64_t> alive;
  std::uint64_t now = 0, peak = 0;
  for (std::size_t n = 0; n < g.nodes().size(); ++n) {
    for (const ValueId id : g.nodes()[n].outputs) {
      if (id == no_value || g.value(g.root(id)).kind != QUERN_VALUE_INTERNAL || alive.contains(g.root(id))) continue;
      now += alive[g.root(id)] = graph::byte_size(g.value(g.root(id)).dtype, g.value(g.root(id)).shape);
    }
    peak = std::max(peak, now);
    for (auto one = alive.begin(); one != alive.end();) {
      if (last[one->first] > n) {
        ++one;
      } else {
        now -= one->second;
        one = alive.erase(one);
      }
    }
  }
  return peak;
}

TEST(Checkpointing, GivesTheSameBitsFromLessMemory) {
  std::vector<std::vector<std::vector<double>>> gradients;
  std::vector<std::uint64_t> peaks;
  std::vector<std::size_t> nodes;
  for (const auto mode : {graph::Checkpointing::none, graph::Checkpointing::selective, graph::Checkpointing::full}) {
    B b;
    Decoder model(b);
    model.trained = Decoder::Trained::adapters;
    model.head_norms = true;
    model.dropout = 0.3;
    model.build();
    b.options = {mode, model.starts};
    b.differentiate();
    gradients.push_back(b.gradients());
    peaks.push_back(peak_bytes(b.g));
    nodes.push_back(b.g.nodes().size());
  }
  EXPECT_EQ(gradients[0], gradients[1]);
  EXPECT_EQ(gradients[0], gradients[2]);
  EXPECT_LT(peaks[1], peaks[0]);
  EXPECT_LT(peaks[2], peaks[1]);
  EXPECT_GT(nodes[1], nodes[0]);
  EXPECT_GT(nodes[2], nodes[1]);
}

TEST(Checkpointing, MakesEachNodeAgainAtMostOnceAndNeverTheLastSegment) {
  for (const auto mode : {graph::Checkpointing::selective, graph::Checkpointing::full}) {
    B b;
    Decoder model(b);
    model.trained = Decoder::Trained::adapters;
    model.build();
    std::vector<graph::Node> forward = b.g.nodes();
    b.options = {mode, model.starts};
    b.differentiate();
    // Clones have their forward node's attributes and outputs of its shape; count them by op.
    const auto count = [](const std::vector<graph::Node>& nodes, std::uint32_t op) {
      return std::ranges::count(nodes, op, &graph::Node::op);
    };
    const bool full = mode == graph::Checkpointing::full;
    EXPECT_EQ(count(b.g.nodes(), QUERN_OP_ATTENTION_DENSE), full ? 4 : 2);
    EXPECT_EQ(count(b.g.nodes(), QUERN_OP_GLU), 4);
    EXPECT_EQ(count(b.g.nodes(), QUERN_OP_CROSS_ENTROPY), 1);
    EXPECT_EQ(count(b.g.nodes(), QUERN_OP_RMS_NORM), count(forward, QUERN_OP_RMS_NORM) + 4);  // two a layer, none of the head
    EXPECT_EQ(count(b.g.nodes(), QUERN_OP_GET_ROWS), 2);                                     // both cross a segment or are the last
  }
}

}  // namespace
}  // namespace quern::test
