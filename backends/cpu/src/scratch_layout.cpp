// Places internal values in scratch so that those whose lifetimes do not meet share bytes.
//
// Values are placed in the order of their first node, each in the smallest gap that is free then (best fit), which is exact in
// its result and O(n log n) in practice; gaps are joined when values end.
#include "plan.hpp"

#include "error.hpp"

#include <algorithm>
#include <map>

namespace quern::cpu {
namespace {

constexpr std::uint64_t round_up(std::uint64_t bytes) noexcept { return (bytes + span_alignment - 1) / span_alignment * span_alignment; }

struct Lifetime {
  std::uint32_t first = QUERN_NONE, last = 0;
};

/// Free ranges of [0, end), by start.
class FreeList {
 public:
  std::uint64_t take(std::uint64_t bytes) {
    auto best = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it)
      if (it->second >= bytes && (best == free_.end() || it->second < best->second)) best = it;
    if (best == free_.end()) {
      // The last range may reach the end and grow.
      std::uint64_t at = end_;
      if (!free_.empty()) {
        const auto tail = std::prev(free_.end());
        if (tail->first + tail->second == end_) {
          at = tail->first;
          free_.erase(tail);
        }
      }
      end_ = at + bytes;
      return at;
    }
    const std::uint64_t at = best->first, left = best->second - bytes;
    free_.erase(best);
    if (left > 0) free_.emplace(at + bytes, left);
    return at;
  }
  void give(std::uint64_t at, std::uint64_t bytes) {
    auto next = free_.lower_bound(at);
    if (next != free_.end() && at + bytes == next->first) {
      bytes += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == at) {
        before->second += bytes;
        return;
      }
    }
    free_.emplace(at, bytes);
  }
  std::uint64_t end() const noexcept { return end_; }

 private:
  std::map<std::uint64_t, std::uint64_t> free_;
  std::uint64_t end_ = 0;
};

std::uint64_t kernel_scratch(const Plan& plan, const std::vector<TensorView>& at_bounds) {
  std::uint64_t most = 0;
  std::vector<TensorView> storage;
  for (std::size_t n = 0; n < plan.kernels.size(); ++n) {
    if (plan.kernels[n]->scratch == nullptr) continue;
    const Node& node = plan.graph.nodes[n];
    OpCall call = describe_call(plan.graph, node, plan.policy.thread_count, plan.policy.deterministic, storage);
    std::size_t at = 0;
    for (const auto* ids : {&node.inputs, &node.outputs})
      for (const std::uint32_t id : *ids) {
        if (id != QUERN_NONE) storage[at] = at_bounds[id];
        ++at;
      }
    most = std::max(most, plan.kernels[n]->scratch(call));
  }
  return most;
}

}  // namespace

ScratchLayout layout_scratch(const Plan& plan, const std::vector<TensorView>& at_bounds) {
  const Graph& graph = plan.graph;
  std::vector<Lifetime> lives(graph.values.size());
  const auto touch = [&](std::uint32_t id, std::uint32_t node) {
    if (id == QUERN_NONE) return;
    Lifetime& life = lives[graph.values[id].root];
    if (life.first == QUERN_NONE) life.first = node;
    life.last = node;
  };
  for (std::uint32_t n = 0; n < graph.nodes.size(); ++n) {
    for (const std::uint32_t id : graph.nodes[n].inputs) touch(id, n);
    for (const std::uint32_t id : graph.nodes[n].outputs) touch(id, n);
    touch(graph.nodes[n].predicate, n);
  }
  std::vector<std::vector<std::uint32_t>> begins(graph.nodes.size()), ends(graph.nodes.size());
  for (std::uint32_t id = 0; id < graph.values.size(); ++id) {
    if (graph.values[id].kind != QUERN_VALUE_INTERNAL || graph.values[id].root != id || lives[id].first == QUERN_NONE) continue;
    begins[lives[id].first].push_back(id);
    ends[lives[id].last].push_back(id);
  }
  ScratchLayout layout;
  layout.offsets.assign(graph.values.size(), 0);
  FreeList free;
  const auto bytes_of = [&](std::uint32_t id) { return round_up(std::max<std::uint64_t>(1, view_bytes(at_bounds[id]))); };
  for (std::uint32_t n = 0; n < graph.nodes.size(); ++n) {
    for (const std::uint32_t id : begins[n]) layout.offsets[id] = free.take(bytes_of(id));
    for (const std::uint32_t id : ends[n]) free.give(layout.offsets[id], bytes_of(id));
  }
  layout.kernel_offset = free.end();
  layout.kernel_bytes = round_up(kernel_scratch(plan, at_bounds));
  layout.bytes = layout.kernel_offset + layout.kernel_bytes;
  return layout;
}

}  // namespace quern::cpu
