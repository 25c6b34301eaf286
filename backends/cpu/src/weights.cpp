// See weights.hpp.
#include "weights.hpp"

#include "abi_list.hpp"
#include "formats.hpp"

#include "quern/quern_min_sizes.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace quern::cpu {
namespace {

struct Use {
  bool multiplied = false, other = false;
  std::uint32_t conversions = ~0u;  // that all its products allow
};

/// How each value of a graph is read. A view of a constant counts as another use of it.
std::vector<Use> uses_of(const Graph& graph) {
  std::vector<Use> uses(graph.values.size());
  for (const Value& value : graph.values)
    if (&graph.values[value.root] != &value) uses[value.root].other = true;
  for (const Node& node : graph.nodes) {
    const auto transposed = [&](std::uint32_t key) {
      return std::ranges::any_of(node.attributes, [&](const AttributeValue& a) { return a.key == key && a.integer != 0; });
    };
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == QUERN_NONE) continue;
      Use& use = uses[node.inputs[i]];
      const std::uint32_t rank = graph.values[node.inputs[i]].view.rank;
      const bool matrix = node.op == QUERN_OP_MATMUL && rank == 2 && !transposed(QUERN_KEY_TRANSPOSE_A) &&
                          !transposed(QUERN_KEY_TRANSPOSE_B);
      const bool experts = node.op == QUERN_OP_MATMUL_ID && rank == 3;
      if (i == 1 && node.verdict && (matrix || experts)) {
        use.multiplied = true;
        use.conversions &= node.conversions;
      } else if (!(node.op == QUERN_OP_GET_ROWS && i == 0 && rank == 2)) {
        use.other = true;
      }
    }
    if (node.predicate != QUERN_NONE) uses[node.predicate].other = true;
  }
  return uses;
}

}  // namespace

std::unique_ptr<WeightList> plan_weights(std::span<const Graph> graphs, const PackedSet& set) {
  struct Candidate {
    quern_dtype format;
    std::int64_t experts, rows, k;  // experts: 0 for a matrix
    std::vector<quern_weight_source> sources;
    std::uint32_t conversions = ~0u;
    bool wanted = true;
  };
  std::vector<Candidate> candidates;
  std::map<std::tuple<std::string, quern_dtype, std::int64_t, std::int64_t, std::int64_t>, std::size_t> named;
  for (std::uint32_t g = 0; g < graphs.size(); ++g) {
    const std::vector<Use> uses = uses_of(graphs[g]);
    for (std::uint32_t id = 0; id < uses.size(); ++id) {
      const Value& value = graphs[g].values[id];
      const TensorView& view = value.view;
      if (value.kind != QUERN_VALUE_CONSTANT || !value.verdict || view.ranged != 0 || value.root != id) continue;
      if ((view.rank != 2 && view.rank != 3) || view.layout != nullptr || !is_contiguous(view) || element_count(view) <= 0) continue;
      const std::int64_t experts = view.rank == 3 ? view.dims[0] : 0, rows = view.dim_from_end(1), k = view.dim_from_end(0);
      std::size_t at = candidates.size();
      if (!value.name.empty()) at = named.try_emplace({value.name, view.dtype, experts, rows, k}, at).first->second;
      if (at == candidates.size()) candidates.push_back({view.dtype, experts, rows, k, {}});
      candidates[at].sources.push_back({g, id});
      candidates[at].conversions &= uses[id].conversions;
      candidates[at].wanted = candidates[at].wanted && uses[id].multiplied && !uses[id].other;
    }
  }

  auto list = std::make_unique<WeightList>();
  for (Candidate& c : candidates) {
    // Products that a node wants exact keep the order of summation of the canonical kernels.
    const PackedLayout* layout = c.wanted && c.conversions != 0 ? find_packed_layout(set, c.format, c.k, c.conversions) : nullptr;
    if (layout == nullptr) continue;
    const PackedKey key{layout, c.experts, c.rows, c.k};
    list->keys.push_back(packed_key(key));
    list->sources.push_back(std::move(c.sources));
    quern_weight_item item{};
    item.header = {sizeof(item), QUERN_TYPE_WEIGHT_ITEM, nullptr};
    item.bytes = static_cast<std::uint64_t>(packed_bytes(key));
    item.alignment = 64;
    item.benefit = static_cast<double>(item.bytes) * 5e-11;  // canonical blocks are read at some 10 GB/s, panels at 20
    list->items.push_back(item);
  }
  for (std::size_t i = 0; i < list->items.size(); ++i) {  // the vectors grow no more
    quern_weight_item& item = list->items[i];
    item.layout_key = {list->keys[i].data(), list->keys[i].size()};
    item.sources = {list->sources[i].data(), list->sources[i].size(), sizeof(quern_weight_source)};
  }
  return list;
}

void pack_weight(const std::string& key, const quern_array& sources, const quern_array& destination, ThreadPool& pool) {
  const PackedKey packed = parse_packed_key(key);
  if (packed.layout == nullptr) throw Error(QUERN_UNSUPPORTED, concat("'", key, "' is no layout of this plugin on this processor"));
  const List<quern_span> from_list(sources, QUERN_MIN_SIZE_quern_span, "sources");
  const List<quern_span> to_list(destination, QUERN_MIN_SIZE_quern_span, "destination");
  if (from_list.size() != 1 || to_list.size() != 1)
    throw Error(QUERN_UNSUPPORTED,
                concat("an item of '", key, "' has one source and one destination span, not ", from_list.size(), " and ", to_list.size()));
  const quern_span from = from_list[0], to = to_list[0];
  const PackedLayout& layout = *packed.layout;
  const std::int64_t row_bytes = packed.k / unit_elements(layout.format) * unit_bytes(layout.format);
  const auto needed = static_cast<std::uint64_t>(packed.matrices() * packed.rows * row_bytes),
             size = static_cast<std::uint64_t>(packed_bytes(packed));
  if (from.host == nullptr || from.bytes < needed)
    throw Error(QUERN_INVALID_ARGUMENT,
                concat("the source of '", key, "' has ", from.host == nullptr ? 0 : from.bytes, " host bytes; it needs ", needed));
  if (to.host == nullptr || to.bytes < size || reinterpret_cast<std::uintptr_t>(to.host) % 64 != 0)
    throw Error(QUERN_INVALID_ARGUMENT, concat("the destination of '", key, "' has ", to.host == nullptr ? 0 : to.bytes,
                                               " host bytes; it needs ", size, ", aligned to 64"));
  const std::int64_t panels = packed_panels(layout, packed.rows);  // of a matrix
  const auto pack = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t panel = begin; panel < end; ++panel) {
      const std::int64_t row = panel % panels * layout.panel_rows, before = panel / panels * packed.rows;  // rows of the experts before
      layout.pack(static_cast<const std::byte*>(from.host) + (before + row) * row_bytes, row_bytes,
                  std::min(layout.panel_rows, packed.rows - row), packed.k,
                  static_cast<std::byte*>(to.host) + panel * layout.panel_bytes(packed.k));
    }
  };
  pool.run(
      packed.matrices() * panels, std::max<std::int64_t>(1, (std::int64_t{256} << 10) / layout.panel_bytes(packed.k)), nullptr,
      [](const void* body, std::int64_t begin, std::int64_t end, std::uint32_t) {
        (*static_cast<const decltype(pack)*>(body))(begin, end);
      },
      &pack);
}

}  // namespace quern::cpu
