// Which constants of a set of graphs a plugin packs: what weights_plan, weights_pack and weights_release of
// synchronous.hpp ask.
//
// Part of the plugin SDK (include quern/quern_device_plugin.hpp); C++17, not part of the ABI.
#ifndef QUERN_SDK_WEIGHTS_HPP
#define QUERN_SDK_WEIGHTS_HPP

#include "quern/sdk/blocks.hpp"
#include "quern/sdk/resolved.hpp"

#include <deque>
#include <map>
#include <tuple>

namespace quern {
namespace sdk {

/// How a node that runs here reads one of its inputs.
enum class WeightRead {
  canonical,  ///< as the host's bytes alone
  either,     ///< packed as well, and packing gains nothing
  packed,     ///< faster where it is packed
};

/// What a plugin packs into planes.
class PlanePacking {
 public:
  virtual ~PlanePacking() = default;
  /// The part of a key before ".planes.": the plugin's id.
  virtual const char* plugin() const = 0;
  virtual WeightRead reads(const ResolvedNode& node, std::size_t input) const = 0;
  /// Whether its kernels count so many blocks.
  virtual bool serves(const PlaneLayout&) const { return true; }

  PlaneLayout parse(std::string_view key) const {
    const PlaneLayout layout = parse_plane_layout(plugin(), key);
    return layout.dtype != QUERN_DTYPE_NONE && serves(layout) ? layout : PlaneLayout{};
  }
  /// For Offers::layout_bytes.
  std::uint64_t layout_bytes(std::string_view key, const quern_value& value) const {
    const PlaneLayout layout = parse(key);
    const bool fits = layout.dtype != QUERN_DTYPE_NONE && layout.dtype == value.dtype && layout.rows == value.dims[0] &&
                      layout.k == value.dims[1];
    return fits ? layout.bytes() : 0;
  }
};

/// What weights_plan returned: the host reads `items` until it releases them.
struct WeightList {
  std::vector<quern_weight_item> items;
  std::deque<std::string> keys;
  std::deque<std::vector<quern_weight_source>> sources;
};

/// Which values of a graph are packed: constant matrices that some node reads faster so, and none in another
/// way.
inline std::vector<bool> packed_values(const ResolvedGraph& graph, const PlanePacking& packing) {
  std::vector<bool> packed(graph.values.size(), false), canonical(graph.values.size(), false);
  for (std::uint32_t v = 0; v < graph.values.size(); ++v)
    if (graph.values[v].root != v) canonical[graph.values[v].root] = true;
  for (const ResolvedNode& node : graph.nodes) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == QUERN_NONE) continue;
      const WeightRead read = node.refusal.empty() ? packing.reads(node, i) : WeightRead::canonical;
      if (read == WeightRead::packed) packed[node.inputs[i]] = true;
      if (read == WeightRead::canonical) canonical[node.inputs[i]] = true;
    }
    if (node.predicate != QUERN_NONE) canonical[node.predicate] = true;
  }
  for (std::uint32_t v = 0; v < packed.size(); ++v) {
    const ResolvedValue& value = graph.values[v];
    const Tensor& t = value.tensor;
    packed[v] = packed[v] && !canonical[v] && graph.source.values[v].kind == QUERN_VALUE_CONSTANT && value.root == v &&
                value.refusal.empty() && t.rank == 2 && t.ranged == 0 && !t.packed_layout && t.dims[0] > 0 && t.dims[1] > 0 &&
                gains_by_planes(t.dtype) && is_contiguous(t) && packing.serves({t.dtype, t.dims[0], t.dims[1]});
  }
  return packed;
}

/// One item for each constant matrix that every graph packs. Constants of several graphs with one name,
/// format and shape share an item.
inline std::unique_ptr<WeightList> plan_weights(const std::vector<std::unique_ptr<ResolvedGraph>>& graphs, const PlanePacking& packing) {
  using Identity = std::tuple<std::string, quern_dtype, std::int64_t, std::int64_t, std::size_t>;
  struct Candidate {
    std::vector<quern_weight_source> sources;
    bool wanted = true;
  };
  std::map<Identity, Candidate> candidates;
  std::size_t nameless = 0;
  for (std::uint32_t g = 0; g < graphs.size(); ++g) {
    const std::vector<bool> packed = packed_values(*graphs[g], packing);
    for (std::uint32_t v = 0; v < packed.size(); ++v) {
      const Tensor& t = graphs[g]->values[v].tensor;
      if (graphs[g]->source.values[v].kind != QUERN_VALUE_CONSTANT || t.rank != 2 || !gains_by_planes(t.dtype)) continue;
      const std::string name = t.name;
      Candidate& candidate = candidates[{name, t.dtype, t.dims[0], t.dims[1], name.empty() ? ++nameless : 0}];
      candidate.sources.push_back({g, v});
      candidate.wanted = candidate.wanted && packed[v];
    }
  }
  auto list = std::make_unique<WeightList>();
  for (auto& entry : candidates) {
    if (!entry.second.wanted) continue;
    const PlaneLayout layout{std::get<1>(entry.first), std::get<2>(entry.first), std::get<3>(entry.first)};
    quern_weight_item item = made<quern_weight_item>();
    item.layout_key = text_of(list->keys.emplace_back(layout.key(packing.plugin())));
    const auto& sources = list->sources.emplace_back(std::move(entry.second.sources));
    item.sources = {sources.data(), sources.size(), sizeof(quern_weight_source)};
    item.bytes = layout.bytes();
    item.alignment = plane_alignment;
    item.benefit = static_cast<double>(item.bytes) * 2e-13;  // loads of 2 bytes reach about half of a GPU's 3 TB/s
    list->items.push_back(item);
  }
  return list;
}

}  // namespace sdk
}  // namespace quern

#endif
