// Places internal values in scratch so that those whose lifetimes do not meet share bytes.
//
// Values are placed in the order of their first step, each in the smallest gap that is free then (best fit), which is exact in
// its result and O(n log n) in practice; gaps are joined when values end.
#include "plan.hpp"

#include "error.hpp"

#include <algorithm>
#include <map>

namespace quern::cpu {
namespace {

constexpr std::uint64_t round_up(std::uint64_t bytes) noexcept { return (bytes + span_alignment - 1) / span_alignment * span_alignment; }

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
  std::vector<std::vector<TensorView>> storage(plan.graph.nodes.size());
  std::vector<OpCall> calls;
  calls.reserve(plan.graph.nodes.size());
  for (std::size_t n = 0; n < plan.graph.nodes.size(); ++n) {
    const Node& node = plan.graph.nodes[n];
    calls.push_back(describe_call(plan.graph, node, plan.policy.thread_count, plan.policy.deterministic, storage[n]));
    std::size_t at = 0;
    for (const auto* ids : {&node.inputs, &node.outputs})
      for (const std::uint32_t id : *ids) {
        if (id != QUERN_NONE) storage[n][at] = at_bounds[id];
        ++at;
      }
  }
  for (const Step& step : plan.steps) {
    if (step.fusion == nullptr) {
      const Kernel& kernel = *plan.kernels[step.first];
      if (kernel.scratch != nullptr) most = std::max(most, kernel.scratch(calls[step.first]));
    } else if (step.fusion->scratch != nullptr) {
      most = std::max(most, step.fusion->scratch(std::span(calls).subspan(step.first, step.count)));
    }
  }
  return most;
}

}  // namespace

ScratchLayout layout_scratch(const Plan& plan, const std::vector<TensorView>& at_bounds) {
  const Graph& graph = plan.graph;
  // A step reads and writes all along: what one of its nodes touches lives through all of it.
  const std::vector<Touches> touches = find_touches(graph);
  std::vector<std::uint32_t> step_of(graph.nodes.size());
  for (std::uint32_t s = 0; s < plan.steps.size(); ++s)
    for (std::uint32_t n = 0; n < plan.steps[s].count; ++n) step_of[plan.steps[s].first + n] = s;
  std::vector<std::vector<std::uint32_t>> begins(plan.steps.size()), ends(plan.steps.size());
  for (std::uint32_t id = 0; id < graph.values.size(); ++id) {
    if (graph.values[id].kind != QUERN_VALUE_INTERNAL || graph.values[id].root != id || touches[id].first == QUERN_NONE ||
        plan.memoryless[id])
      continue;
    begins[step_of[touches[id].first]].push_back(id);
    ends[step_of[touches[id].last]].push_back(id);
  }
  ScratchLayout layout;
  layout.offsets.assign(graph.values.size(), 0);
  FreeList free;
  const auto bytes_of = [&](std::uint32_t id) { return round_up(std::max<std::uint64_t>(1, view_bytes(at_bounds[id]))); };
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    for (const std::uint32_t id : begins[s]) layout.offsets[id] = free.take(bytes_of(id));
    for (const std::uint32_t id : ends[s]) free.give(layout.offsets[id], bytes_of(id));
  }
  layout.kernel_offset = free.end();
  layout.kernel_bytes = round_up(kernel_scratch(plan, at_bounds));
  layout.bytes = layout.kernel_offset + layout.kernel_bytes;
  return layout;
}

}  // namespace quern::cpu
