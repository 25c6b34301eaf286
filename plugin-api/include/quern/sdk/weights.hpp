// Which constants of a set of graphs a plugin packs: what weights_plan, weights_pack and weights_release of
// synchronous.hpp ask.
//
// Part of the plugin SDK (include quern/quern_device_plugin.hpp); C++17, not part of the ABI.
#ifndef QUERN_SDK_WEIGHTS_HPP
#define QUERN_SDK_WEIGHTS_HPP

#include "quern/sdk/blocks.hpp"
#include "quern/sdk/resolved.hpp"

#include <deque>
#include <limits>
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

/// What a constant becomes where it is packed.
struct PackedForm {
  std::string key;
  std::uint64_t bytes = 0, alignment = 1;
  double benefit = 0;  ///< seconds a pass over it that are saved
};

/// How a plugin packs constants. Besides these functions a plugin has
///   parse(key) -> Layout   false where the key is none of its; else with source_bytes() and bytes()
///   alignment              of packed bytes
class WeightPacking {
 public:
  virtual ~WeightPacking() = default;
  /// Whether how_read() is asked about a node; all others read canonical bytes.
  virtual bool considers(const ResolvedNode& node) const { return node.refusal.empty(); }
  virtual WeightRead how_read(const ResolvedNode& node, std::size_t input, const Tensor& tensor) const = 0;
  /// The form of a constant, or of one for each expert, whose products all allow `conversions`; without a key: it stays canonical.
  virtual PackedForm form(const Tensor& tensor, std::uint32_t conversions) const = 0;
};

/// What a plugin packs into planes.
class PlanePacking : public WeightPacking {
 public:
  static constexpr std::uint64_t alignment = plane_alignment;

  /// The part of a key before ".planes.": the plugin's id.
  virtual const char* plugin() const = 0;
  virtual WeightRead reads(const ResolvedNode& node, std::size_t input) const = 0;
  /// Whether its kernels count so many blocks.
  virtual bool serves(const PlaneLayout&) const { return true; }
  /// 3: matrices of experts too, one behind the other in the same planes. Only matmul_id reads those.
  virtual std::uint32_t most_rank() const { return 2; }

  WeightRead how_read(const ResolvedNode& node, std::size_t input, const Tensor& tensor) const override {
    return tensor.rank > 2 && node.op != QUERN_OP_MATMUL_ID ? WeightRead::canonical : reads(node, input);
  }
  PackedForm form(const Tensor& t, std::uint32_t) const override {
    if (!takes_rank(t.rank)) return {};
    const PlaneLayout layout{t.dtype, rows_of(t.dims, t.rank), t.dims[t.rank - 1]};
    if (layout.rows == 0 || !gains_by_planes(t.dtype) || !serves(layout)) return {};
    // Loads of 2 bytes reach about half of a GPU's 3 TB/s.
    return {layout.key(plugin()), layout.bytes(), alignment, static_cast<double>(layout.bytes()) * 2e-13};
  }
  PlaneLayout parse(std::string_view key) const {
    const PlaneLayout layout = parse_plane_layout(plugin(), key);
    return layout && serves(layout) ? layout : PlaneLayout{};
  }
  /// For Offers::layout_bytes.
  std::uint64_t layout_bytes(std::string_view key, const quern_value& value) const {
    const PlaneLayout layout = parse(key);
    const bool fits = layout && takes_rank(value.rank) && layout.dtype == value.dtype && layout.rows == rows_of(value.dims, value.rank) &&
                      layout.k == value.dims[value.rank - 1];
    return fits ? layout.bytes() : 0;
  }

 private:
  bool takes_rank(std::uint32_t rank) const { return rank >= 2 && rank <= most_rank(); }
  /// Of all matrices; 0 where they are more than a key has.
  static std::int64_t rows_of(const std::int64_t* dims, std::uint32_t rank) {
    if (rank == 2) return dims[0];
    return dims[0] > 0 && dims[1] > 0 && dims[0] <= std::numeric_limits<std::int32_t>::max() / dims[1] ? dims[0] * dims[1] : 0;
  }
};

/// What weights_plan returned: the host reads `items` until it releases them.
struct WeightList {
  std::vector<quern_weight_item> items;
  std::deque<std::string> keys;
  std::deque<std::vector<quern_weight_source>> sources;
};

/// How the nodes of a graph read a value.
struct WeightUse {
  bool packed = false, canonical = false;
  std::uint32_t conversions = ~0u;  ///< that all its products allow
};

/// A view of a constant is another use of it, that reads canonical bytes.
inline std::vector<WeightUse> weight_uses(const ResolvedGraph& graph, const WeightPacking& packing) {
  std::vector<WeightUse> uses(graph.values.size());
  for (std::uint32_t v = 0; v < graph.values.size(); ++v)
    if (graph.values[v].root != v) uses[graph.values[v].root].canonical = true;
  for (const ResolvedNode& node : graph.nodes) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == QUERN_NONE) continue;
      WeightUse& use = uses[node.inputs[i]];
      const WeightRead read = packing.considers(node) ? packing.how_read(node, i, graph.values[node.inputs[i]].tensor)
                                                      : WeightRead::canonical;
      if (read == WeightRead::packed) {
        use.packed = true;
        use.conversions &= node.conversions;
      }
      if (read == WeightRead::canonical) use.canonical = true;
    }
    if (node.predicate != QUERN_NONE) uses[node.predicate].canonical = true;
  }
  return uses;
}

/// One item for each constant that some node of every graph reads faster packed, and none in another way. Constants of several graphs
/// with one name, format and shape share an item.
inline std::unique_ptr<WeightList> plan_weights(const std::vector<std::unique_ptr<ResolvedGraph>>& graphs, const WeightPacking& packing) {
  using Identity = std::tuple<std::string, quern_dtype, std::uint32_t, std::int64_t, std::int64_t, std::int64_t, std::size_t>;
  struct Candidate {
    Tensor tensor;
    std::vector<quern_weight_source> sources;
    std::uint32_t conversions = ~0u;
    bool wanted = true;
  };
  std::deque<Candidate> candidates;  // in the order of the graphs
  std::map<Identity, Candidate*> named;
  std::size_t nameless = 0;
  for (std::uint32_t g = 0; g < graphs.size(); ++g) {
    const std::vector<WeightUse> uses = weight_uses(*graphs[g], packing);
    for (std::uint32_t v = 0; v < uses.size(); ++v) {
      const ResolvedValue& value = graphs[g]->values[v];
      const Tensor& t = value.tensor;
      if (graphs[g]->source.values[v].kind != QUERN_VALUE_CONSTANT || value.root != v || (t.rank != 2 && t.rank != 3)) continue;
      const std::string name = t.name;
      Candidate*& candidate = named[{name, t.dtype, t.rank, t.dims[0], t.dims[1], t.dims[2], name.empty() ? ++nameless : 0}];
      if (candidate == nullptr) {
        candidate = &candidates.emplace_back();
        candidate->tensor = t;
      }
      candidate->sources.push_back({g, v});
      candidate->conversions &= uses[v].conversions;
      candidate->wanted = candidate->wanted && uses[v].packed && !uses[v].canonical && value.refusal.empty() && t.ranged == 0 &&
                          !t.packed_layout && t.elements() > 0 && is_contiguous(t);
    }
  }
  auto list = std::make_unique<WeightList>();
  for (Candidate& candidate : candidates) {
    PackedForm form = candidate.wanted ? packing.form(candidate.tensor, candidate.conversions) : PackedForm{};
    if (form.key.empty()) continue;
    quern_weight_item item = made<quern_weight_item>();
    item.layout_key = text_of(list->keys.emplace_back(std::move(form.key)));
    const auto& sources = list->sources.emplace_back(std::move(candidate.sources));
    item.sources = {sources.data(), sources.size(), sizeof(quern_weight_source)};
    item.bytes = form.bytes;
    item.alignment = form.alignment;
    item.benefit = form.benefit;
    list->items.push_back(item);
  }
  return list;
}

}  // namespace sdk
}  // namespace quern

#endif
