// See model_split.hpp.
#include "model_split.hpp"

#include "runtime.hpp"

#include <algorithm>

namespace quern::runtime {
namespace {

/// The layer of a node: layers are numbered from 0; -1 comes before them, and what is behind them counts as one more.
std::int64_t layer_of(const models::StepGraph& step, std::uint32_t node) {
  return std::ranges::upper_bound(step.layer_nodes, node) - step.layer_nodes.begin() - 1;
}

}  // namespace

std::optional<Lack> find_lack(const Program& program, const std::vector<WantedWeight>& wanted) {
  for (std::uint32_t d = 0; d < program.devices().size(); ++d) {
    Lack lack{d, 0, program.needs(d).total(), 0};
    for (const WantedWeight& weight : wanted) lack.weights += weight.place.device == d ? weight.arena_bytes() : 0;
    const std::optional<std::uint64_t> available = available_bytes(*program.devices()[d]);
    if (!available || lack.weights + lack.session <= *available) continue;
    lack.available = *available;
    return lack;
  }
  return std::nullopt;
}

LayerBytes layer_bytes(const Program& program, const models::StepGraph& step, const std::vector<WantedWeight>& wanted) {
  LayerBytes bytes;
  const auto layers = static_cast<std::int64_t>(step.k_cache.size());
  bytes.layers.resize(step.k_cache.size());
  bytes.shared = program.needs(0).total();
  for (std::size_t l = 0; l < step.k_cache.size(); ++l) {
    for (const graph::ValueId id : {step.k_cache[l], step.v_cache[l]}) {
      const std::uint64_t cache = graph::byte_size(step.graph.value(id).dtype, step.graph.value(id).shape);
      bytes.layers[l] += cache;
      bytes.shared -= std::min(bytes.shared, cache);
    }
  }
  for (const WantedWeight& weight : wanted) {
    if (weight.place.device != 0) continue;
    const auto known = std::ranges::find(step.weights, weight.place.tensor, &models::StepGraph::Weight::tensor);
    if (known == step.weights.end()) {  // of the rope table
      bytes.shared += weight.arena_bytes();
      continue;
    }
    std::vector<std::int64_t> readers;
    for (std::uint32_t n = 0; n < step.graph.nodes().size(); ++n) {
      const std::vector<graph::ValueId>& inputs = step.graph.nodes()[n].inputs;
      if (std::ranges::find(inputs, known->value) != inputs.end() && (readers.empty() || readers.back() != layer_of(step, n)))
        readers.push_back(layer_of(step, n));
    }
    for (const std::int64_t layer : readers) {
      if (layer >= 0) (layer < layers ? bytes.layers[static_cast<std::size_t>(layer)] : bytes.tail) += weight.arena_bytes();
    }
  }
  return bytes;
}

Assignment assign_layers(const models::StepGraph& step, const LayerSplit& split, std::string reason) {
  Assignment assignment{{}, std::move(reason)};
  const auto layers = static_cast<std::int64_t>(step.k_cache.size());
  for (std::uint32_t n = 0; n < step.graph.nodes().size(); ++n) {
    const std::int64_t layer = layer_of(step, n);
    assignment.first_device_of_node.push_back(layer < 0        ? static_cast<std::uint32_t>(split.layers.size() - 1)
                                              : layer < layers ? split.device_of(static_cast<std::uint32_t>(layer))
                                                               : split.tail_device());
  }
  return assignment;
}

std::string describe_split(const LayerSplit& split, const std::vector<std::shared_ptr<MemoryBudget>>& devices) {
  std::string text;
  for (std::size_t d = split.layers.size(); d-- > 0;) {
    const LayerSplit::Range range = split.range(static_cast<std::uint32_t>(d));
    if (range.first == range.end && d + 1 != split.layers.size()) continue;
    std::string part = range.first == range.end       ? "no layer"
                       : range.end == range.first + 1 ? concat("layer ", range.first)
                                                      : concat("layers ", range.first, " to ", range.end - 1);
    if (d == split.tail_device()) part += " and the head";
    text += concat(text.empty() ? "" : ", ", part, " on ", devices[d]->device()->label());
  }
  return text;
}

}  // namespace quern::runtime
