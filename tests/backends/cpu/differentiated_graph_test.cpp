// Gradients that differentiate() builds, computed by the plugin: against f64, and with the same bits whatever is made again.
#include "harness.hpp"

#include "runtime/graph/gradient_decoder.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace quern::cpu_test {
namespace {

using graph::ValueId;
using test::Decoder;
using test::GradientBench;

/// The values of a graph of one bench, with the bench's numbers; those of block formats are drawn here and told to the reference.
GraphSpec on_plugin(const GradientBench& bench, test::ReferenceInterpreter& reference) {
  const graph::Graph& g = bench.g;
  GraphSpec spec;
  const graph::Symbol& tokens = g.symbols()[bench.tokens.symbol - 1];
  spec.symbols.push_back({{tokens.name.data(), tokens.name.size()}, tokens.min, tokens.max, 1, QUERN_NONE, 0});
  for (const auto& [value, numbers] : bench.data()) reference.set(value, numbers);
  for (ValueId id = 0; id < g.values().size(); ++id) {
    const graph::Value& value = g.value(id);
    Tensor tensor;
    std::vector<std::int64_t> dims;
    for (const graph::Dim& dim : value.shape) dims.push_back(dim.size);
    if (graph::is_block_format(value.dtype)) {
      tensor = random_tensor(value.dtype, dims, id, 0.3);
      reference.set(id, meaning(tensor));
    } else {
      tensor = make(value.dtype, dims);
      for (const graph::Dim& dim : value.shape) tensor.symbols.push_back(dim.symbol);
      tensor.strides = g.strides(id);
      const bool bound = value.kind != QUERN_VALUE_INTERNAL && value.alias_of == graph::no_value;
      const double* numbers = bound ? reference.cells(id).data : nullptr;
      for (std::size_t i = 0; bound && i < static_cast<std::size_t>(tensor.elements()); ++i) {
        if (value.dtype == QUERN_F32) tensor.f32()[i] = static_cast<float>(numbers[i]);
        else tensor.integers()[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(numbers[i]));
      }
    }
    tensor.kind = value.kind, tensor.alias_of = value.alias_of, tensor.alias_offset = value.alias_offset;
    spec.add(tensor);
  }
  for (const graph::Node& node : g.nodes()) {
    NodeSpec one{node.op, node.inputs, node.outputs};
    for (const graph::Attribute& a : node.attributes.all())
      one.attributes.push_back({a.key, a.type == QUERN_ATTR_I64 ? static_cast<double>(a.i) : a.f});
    spec.nodes.push_back(one);
  }
  return spec;
}

/// The gradient of all adapters in one flat state, from the plugin and in f64.
struct Gradients {
  std::vector<float> plugin;
  std::vector<double> reference;
};
Gradients of_adapters(quern_dtype base, graph::Checkpointing checkpointing) {
  GradientBench bench(QUERN_F32, /*accumulate=*/true);
  Decoder model(bench);
  model.trained = Decoder::Trained::adapters;
  model.head_norms = true;
  model.dropout = 0.3;
  model.base = base;
  model.hidden = model.ffn = 32, model.head = 8;
  model.build();
  bench.options = {checkpointing, model.starts};
  bench.differentiate();
  test::ReferenceInterpreter reference(bench.g);
  reference.extent(bench.tokens.symbol, GradientBench::run_tokens);
  GraphSpec spec = on_plugin(bench, reference);
  reference.run();
  Plugin plugin(2);
  const Outcome outcome = plugin.run(spec, {GradientBench::run_tokens});
  EXPECT_EQ(outcome.status, QUERN_OK) << outcome.text;
  EXPECT_EQ(outcome.faults, 0u);
  const ValueId sum = bench.gradient_values()[0];
  return {spec.values[sum].floats(), reference.get(sum)};
}

TEST(DifferentiatedGraph, GradientsOfAdaptersAreThoseOfF64) {
  for (const quern_dtype base : {QUERN_F32, QUERN_Q8_0, QUERN_Q4_0}) {
    const Gradients found = of_adapters(base, graph::Checkpointing::full);
    double largest = 0;
    for (const double one : found.reference) largest = std::max(largest, std::fabs(one));
    ASSERT_EQ(found.plugin.size(), found.reference.size());
    ASSERT_GT(largest, 0);
    // Some 40 products and norms behind each other, each off by a few units of 2^-24 of its size.
    for (std::size_t i = 0; i < found.plugin.size(); ++i) ASSERT_NEAR(found.plugin[i], found.reference[i], 1e-4 * largest) << i;
  }
}

TEST(DifferentiatedGraph, CheckpointingGivesTheSameBits) {
  const std::vector<float> kept = of_adapters(QUERN_Q8_0, graph::Checkpointing::none).plugin;
  for (const auto mode : {graph::Checkpointing::selective, graph::Checkpointing::full}) {
    const std::vector<float> again = of_adapters(QUERN_Q8_0, mode).plugin;
    ASSERT_EQ(again.size(), kept.size());
    EXPECT_EQ(std::memcmp(again.data(), kept.data(), kept.size() * sizeof(float)), 0);
  }
}

}  // namespace
}  // namespace quern::cpu_test
