// Gradients of whole models, by central differences, and checkpointing: the same bits from less memory.
#include "gradient_decoder.hpp"

#include <algorithm>

namespace quern::test {
namespace {

using B = GradientBench;

TEST(ModelGradients, OfEveryWeightOfALlama) {
  for (const bool accumulate : {false, true}) {
    B b(QUERN_F32, accumulate);
    Decoder(b).build();
    b.check_together(5);
  }
}

TEST(ModelGradients, OfEveryWeightOfAQwen3WithBiasesInSixteenBits) {
  B b(QUERN_BF16, /*accumulate=*/true);
  Decoder model(b);
  model.head_norms = model.biases = true;
  model.build();
  b.check_together(5);
}

TEST(ModelGradients, OfAdaptersInOneFlatStateOverBlocks) {
  for (const bool accumulate : {false, true}) {
    B b(QUERN_F32, accumulate);
    Decoder model(b);
    model.trained = Decoder::Trained::adapters;
    model.base = QUERN_Q8_0;
    model.hidden = model.ffn = 32, model.head = 8;  // whole blocks
    model.head_norms = true;
    model.dropout = 0.3;
    model.build();
    b.check_together(5);
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
    EXPECT_EQ(count(b.g.nodes(), QUERN_OP_GET_ROWS), 2);                                      // both cross a segment or are the last
  }
}

}  // namespace
}  // namespace quern::test
