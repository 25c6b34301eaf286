// See schedule.hpp.
#include "schedule.hpp"

#include "quern/sdk/scratch.hpp"

#include <algorithm>

namespace quern::cuda {
namespace {

constexpr std::uint64_t alignment = 256;
constexpr std::uint64_t round_up(std::uint64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

struct Life {
  std::uint32_t first = QUERN_NONE, last = 0;
  void touch(std::uint32_t step) {
    if (first == QUERN_NONE) first = step;
    last = step;
  }
};

}  // namespace

bool Schedule::serves(const std::vector<std::int64_t>& extents) const {
  if (rows_symbol != QUERN_NONE) return extents[rows_symbol] >= least_rows && (most_rows == 0 || extents[rows_symbol] <= most_rows);
  return most_rows == 0 || std::ranges::all_of(extents, [&](std::int64_t e) { return e >= 1 && e <= most_rows; });
}

void Schedule::place(const Graph& graph) {
  std::vector<Life> values(graph.values.size()), slots(extras.size());
  std::uint64_t scratch = 0;
  for (std::uint32_t s = 0; s < steps.size(); ++s) {
    for (const auto* list : {&steps[s].reads, &steps[s].writes})
      for (const std::uint32_t v : *list)
        if (v != QUERN_NONE) values[graph.values[v].root].touch(s);
    for (const std::uint32_t e : steps[s].extras) slots[e].touch(s);
    scratch = std::max(scratch, steps[s].scratch);
  }
  value_offset.assign(graph.values.size(), 0);
  extra_offset.assign(extras.size(), 0);
  struct Piece {
    std::uint64_t* offset;
    std::uint64_t bytes;
  };
  std::vector<std::vector<Piece>> begins(steps.size()), ends(steps.size());
  const auto live = [&](const Life& life, std::uint64_t& offset, std::uint64_t size) {
    if (life.first == QUERN_NONE) return;
    begins[life.first].push_back({&offset, size});
    ends[life.last].push_back({&offset, size});
  };
  for (std::uint32_t v = 0; v < values.size(); ++v)
    if (graph.internal(v)) live(values[v], value_offset[v], round_up(std::max<std::uint64_t>(1, graph.values[v].bytes)));
  for (std::uint32_t e = 0; e < slots.size(); ++e) live(slots[e], extra_offset[e], round_up(extras[e]));
  sdk::FreeRanges free;
  for (std::uint32_t s = 0; s < steps.size(); ++s) {
    for (const Piece& piece : begins[s]) *piece.offset = free.take(piece.bytes);
    for (const Piece& piece : ends[s]) free.give(*piece.offset, piece.bytes);
  }
  scratch_offset = free.end();
  bytes = scratch_offset + round_up(scratch);
}

Schedule general_schedule(const Graph& graph) {
  Schedule schedule;
  for (std::uint32_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    Step step;
    step.first_node = n;
    step.kernel = node.implementation->kernel;
    step.reads = node.inputs;
    if (node.predicate != QUERN_NONE) step.reads.push_back(node.predicate);
    step.writes = node.outputs;
    std::vector<Tensor> storage;
    if (node.implementation->scratch != nullptr) step.scratch = node.implementation->scratch(graph.describe(node, storage));
    step.emit = [&node, host_asks = graph.asks_host(node), storage = std::vector<Tensor>(node.inputs.size() + node.outputs.size())](
                    const StepContext& context, Launcher& launcher) mutable {
      std::size_t at = 0;
      for (const auto* list : {&node.inputs, &node.outputs})
        for (const std::uint32_t v : *list) storage[at++] = v == QUERN_NONE ? Tensor{} : context.tensor(v);
      bool any = node.outputs.empty();
      for (std::size_t i = node.inputs.size(); i < storage.size(); ++i)
        any = any || (storage[i].present() && storage[i].elements() > 0);
      if (!any) return;
      Call call;
      call.op = node.op;
      call.inputs = {storage.data(), node.inputs.size()};
      call.outputs = {storage.data() + node.inputs.size(), node.outputs.size()};
      call.attributes = node.attributes.get();
      call.int8_allowed = node.int8_allowed;
      call.bf16_allowed = node.bf16_allowed;
      call.f16_allowed = node.f16_allowed;
      call.invariant = node.invariant;
      call.scratch = context.scratch();
      call.counters = context.counters();
      if (host_asks && launcher.is_dead(context.tensor(node.predicate))) return;
      if (!host_asks && node.predicate != QUERN_NONE) call.predicate = context.tensor(node.predicate);
      node.implementation->emit(call, launcher);
    };
    schedule.steps.push_back(std::move(step));
  }
  return schedule;
}

}  // namespace quern::cuda
