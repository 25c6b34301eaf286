// See model_split.hpp.
#include "model_split.hpp"

#include "runtime.hpp"

#include <algorithm>
#include <map>
#include <string_view>

namespace quern::runtime {
namespace {

/// The layer of a node: layers are numbered from 0; -1 comes before them, and what is behind them counts as one more.
std::int64_t layer_of(const models::StepGraph& step, std::uint32_t node) {
  return std::ranges::upper_bound(step.layer_nodes, node) - step.layer_nodes.begin() - 1;
}

}  // namespace

std::uint64_t process_bytes(const models::StepGraph& step, std::uint64_t bytes) {
  // The program and its libraries: VmHWM of a run less the arenas and the vocabulary. A page's entry in a table has 8 bytes, 1/512 of it;
  // twice that for the tables' own upper levels and what the kernel charges beside them. The rotations are made before the session has
  // its memory, and held while they are written there. Each value that is bound is rounded up to whole pages.
  constexpr std::uint64_t program = 12 << 20, page = 4096, other_values = 64;
  const graph::Value& rope = step.graph.value(step.rope_table);
  return program + bytes / 256 + graph::byte_size(rope.dtype, rope.shape) + (2 * step.k_cache.size() + other_values) * page;
}

std::optional<Lack> find_lack(const Program& program, const models::StepGraph& step, const std::vector<WantedWeight>& wanted) {
  const auto devices = static_cast<std::uint32_t>(program.devices().size());
  std::vector<Lack> needs;
  std::uint64_t of_host = 0;  // what the devices that share its memory need together
  for (std::uint32_t d = 0; d < devices; ++d) needs.push_back({d, 0, program.needs(d).total(), 0, {}});
  for (const WantedWeight& weight : wanted) needs[weight.place.device].weights += weight.arena_bytes();
  for (std::uint32_t d = 0; d < devices; ++d)
    if (shares_host_memory(*program.devices()[d])) of_host += needs[d].weights + needs[d].session;
  const std::uint64_t process = process_bytes(step, of_host);
  std::uint64_t taken = 0;  // of the host, by the devices before
  for (std::uint32_t d = 0; d < devices; ++d) {
    Lack& lack = needs[d];
    const Room room = room_on(*program.devices()[d]);
    const std::uint64_t needed = lack.needed();
    if (room.free && shares_host_memory(*program.devices()[d])) {
      const std::uint64_t left = *room.free - std::min(*room.free, taken);
      taken += needed;
      if (needed + process > left && left < *room.available + process) {
        lack.available = left;
        lack.limit = room.limit;
        lack.process = process;
        return lack;
      }
    }
    if (!room.available || needed <= *room.available) continue;
    lack.available = *room.available;
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
  std::map<std::string_view, graph::ValueId> values;  // the first of a tensor
  for (const models::StepGraph::Weight& weight : step.weights) values.emplace(weight.tensor, weight.value);
  std::vector<std::vector<std::int64_t>> readers(step.graph.values().size());  // layers that read a value, each once
  for (std::uint32_t n = 0; n < step.graph.nodes().size(); ++n) {
    const std::int64_t layer = layer_of(step, n);
    for (const graph::ValueId input : step.graph.nodes()[n].inputs)
      if (input != graph::no_value && (readers[input].empty() || readers[input].back() != layer)) readers[input].push_back(layer);
  }
  for (const WantedWeight& weight : wanted) {
    if (weight.place.device != 0) continue;
    const auto known = values.find(weight.place.tensor);
    if (known == values.end()) {  // of the rope table
      bytes.shared += weight.arena_bytes();
      continue;
    }
    for (const std::int64_t layer : readers[known->second]) {
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
