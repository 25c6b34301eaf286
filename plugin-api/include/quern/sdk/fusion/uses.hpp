// Who makes and who reads each value of a graph, and which nodes may be part of a fused step: what every rule of fusion asks first.
//
// A fused step reads its inputs at another place than the nodes that it stands for. That is right only where nothing writes those inputs in
// between. A value in one piece of memory may be written in place, so that these questions are about roots: the values whose memory it is.
// Part of the plugin SDK; C++17, not part of the ABI.
#ifndef QUERN_SDK_FUSION_USES_HPP
#define QUERN_SDK_FUSION_USES_HPP

#include "quern/sdk/ops.hpp"
#include "quern/sdk/resolved.hpp"

#include <algorithm>
#include <optional>
#include <vector>

namespace quern {
namespace sdk {
namespace fusion {

/// `G`: a ResolvedGraph, or a graph with the same members `values[].root`, `nodes[]` and `internal(root)`. It must outlive this.
template <class G>
class Uses {
 public:
  static constexpr std::uint32_t none = QUERN_NONE;

  /// `invariant`: every step keeps a row's bits whatever the other rows are, so that nodes that ask for that may be part of one.
  explicit Uses(const G& graph, bool invariant = false)
      : graph_(graph), invariant_(invariant), readers_(graph.values.size()), writers_(graph.values.size()) {
    for (std::uint32_t n = 0; n < graph.nodes.size(); ++n) {
      const auto& node = graph.nodes[n];
      for (const std::uint32_t v : node.inputs)
        if (v != none) readers_[root(v)].push_back(n);
      if (node.predicate != none) readers_[root(node.predicate)].push_back(n);
      if (const std::size_t i = written_input(node.op); i != no_written_input) writers_[root(node.inputs[i])].push_back(n);
      for (const std::uint32_t v : node.outputs)
        if (v != none && (writers_[root(v)].empty() || writers_[root(v)].back() != n)) writers_[root(v)].push_back(n);
    }
  }

  /// The value whose memory `v` is.
  std::uint32_t root(std::uint32_t v) const noexcept { return graph_.values[v].root; }
  /// Nodes that read a root, in order; a node that reads it twice is there twice.
  const std::vector<std::uint32_t>& readers(std::uint32_t r) const noexcept { return readers_[r]; }
  /// Nodes that write a root, in order.
  const std::vector<std::uint32_t>& writers(std::uint32_t r) const noexcept { return writers_[r]; }
  /// The last node that writes a root, or none.
  std::uint32_t maker(std::uint32_t r) const noexcept { return writers_[r].empty() ? none : writers_[r].back(); }
  /// Whether the host sees it: then it must be written.
  bool kept(std::uint32_t r) const noexcept { return !graph_.internal(r); }
  /// Whether nothing but one node reads it, nor the host.
  bool only_reader(std::uint32_t r, std::uint32_t node) const noexcept {
    return !kept(r) && std::all_of(readers_[r].begin(), readers_[r].end(), [&](std::uint32_t n) { return n == node; });
  }
  /// Whether no node writes it: it is there before the run.
  bool given(std::uint32_t v) const noexcept { return v == none || writers_[root(v)].empty(); }
  /// Whether it has one content for all its readers: a step may read it anywhere behind its maker. Not so where a node writes it in place.
  bool stable(std::uint32_t v) const noexcept {
    if (given(v)) return true;
    const std::uint32_t r = root(v);
    if (writers_[r].size() > 1) return false;
    return std::all_of(readers_[r].begin(), readers_[r].end(), [&](std::uint32_t n) { return n > writers_[r].front(); });
  }
  /// Whether no node between two others writes it: what the first reads, the second may read in its place.
  bool steady(std::uint32_t v, std::uint32_t from, std::uint32_t to) const noexcept {
    if (given(v)) return true;
    const std::vector<std::uint32_t>& all = writers_[root(v)];
    return std::none_of(all.begin(), all.end(), [&](std::uint32_t n) { return n > from && n < to; });
  }
  /// How many nodes before `n` write its memory: readers of one version read the same.
  std::size_t version(std::uint32_t v, std::uint32_t n) const noexcept {
    const std::vector<std::uint32_t>& all = writers_[root(v)];
    return static_cast<std::size_t>(std::lower_bound(all.begin(), all.end(), n) - all.begin());
  }
  /// Whether it is a view of all of its root's memory, packed.
  bool whole(std::uint32_t v) const {
    const auto& value = graph_.values[v];
    return value.offset == 0 && value.bytes == graph_.values[value.root].bytes && is_contiguous(value.tensor);
  }
  /// Where a value of f32 lies in each row of its root: `count` elements from `first` on, of `of`.
  struct Columns {
    std::int64_t first, count, of;
  };
  /// Nothing where it does not lie so. Parts of a row begin at a multiple of eight elements, which kernels read at a time.
  std::optional<Columns> columns_of(std::uint32_t v) const {
    const Tensor &view = graph_.values[v].tensor, &all = graph_.values[root(v)].tensor;
    if (view.dtype != QUERN_F32 || all.dtype != QUERN_F32 || all.rank < 2 || view.rank < 2 || !is_contiguous(all)) return {};
    if (view.dims[0] != all.dims[0] || all.dims[0] == 0 || view.ranged != all.ranged || view.ranged > 1) return {};
    const Columns found{static_cast<std::int64_t>(graph_.values[v].offset / 4), view.elements() / view.dims[0],
                        all.elements() / all.dims[0]};
    if (whole(v)) return found;
    std::int64_t packed = 4;
    for (std::uint32_t d = view.rank; d-- > 1; packed *= view.dims[d])
      if (view.dims[d] != 1 && view.strides[d] != packed) return {};
    const bool in_row = view.dims[0] == 1 || view.strides[0] == found.of * 4;
    return in_row && found.first % 8 == 0 && found.of % 8 == 0 && found.first + found.count <= found.of ? std::optional<Columns>(found)
                                                                                                        : std::nullopt;
  }
  /// Why a node is a step of its own whatever stands beside it, or null: it may be part of another step.
  const char* alone_because(std::uint32_t n) const noexcept {
    if (graph_.nodes[n].predicate != none) return "it runs under a condition";
    if (graph_.nodes[n].invariant && !invariant_) return "its rows must not depend on the batch";
    return nullptr;
  }

 protected:
  const G& graph_;
  const bool invariant_;

 private:
  std::vector<std::vector<std::uint32_t>> readers_, writers_;
};

}  // namespace fusion
}  // namespace sdk
}  // namespace quern

#endif  // QUERN_SDK_FUSION_USES_HPP
