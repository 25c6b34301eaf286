// See schedule.hpp.
#include "schedule.hpp"

#include <algorithm>

namespace quern::cuda {

bool Schedule::serves(const std::vector<std::int64_t>& extents) const {
  if (rows_symbol != QUERN_NONE && most_prompt_rows != 0 && extents[rows_symbol] > most_prompt_rows &&
      (outputs_symbol == QUERN_NONE || 4 * extents[outputs_symbol] <= extents[rows_symbol]))
    return false;
  if (rows_symbol != QUERN_NONE) return extents[rows_symbol] >= least_rows && (most_rows == 0 || extents[rows_symbol] <= most_rows);
  return most_rows == 0 || std::ranges::all_of(extents, [&](std::int64_t e) { return e >= 1 && e <= most_rows; });
}

void Schedule::place(const Graph& graph) {
  std::vector<sdk::StepMemory> memory;
  for (const Step& step : steps) {
    sdk::StepMemory& touched = memory.emplace_back(sdk::StepMemory{step.reads, step.extras, step.scratch});
    touched.values.insert(touched.values.end(), step.writes.begin(), step.writes.end());
  }
  sdk::ScratchLayout layout = sdk::lay_out_scratch(graph, memory, extras);
  value_offset = std::move(layout.value_offset);
  extra_offset = std::move(layout.extra_offset);
  scratch_offset = layout.scratch_offset;
  bytes = layout.bytes;
}

Call NodeCall::in(const StepContext& context) {
  Call call = graph_->call(*node_, storage_, [&](std::uint32_t v) -> const Tensor& { return context.tensor(v); });
  call.scratch = context.scratch();
  call.counters = context.counters();
  return call;
}

Schedule no_schedule(const Graph& graph, std::string_view rule, std::string_view reason) {
  Schedule nothing;
  nothing.alone = alone_in_all(graph, [&](std::uint32_t n) { return sdk::Alone{n, rule, reason}; });
  return nothing;
}

Schedule general_schedule(const Graph& graph) {
  Schedule schedule;
  for (std::uint32_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    Step step;
    step.first_node = n;
    step.nodes = {n};
    step.kernel = implementation_of(node).kernel;
    step.reads = node.inputs;
    if (node.predicate != QUERN_NONE) step.reads.push_back(node.predicate);
    step.writes = node.outputs;
    std::vector<Tensor> storage;
    if (implementation_of(node).scratch != nullptr) step.scratch = implementation_of(node).scratch(graph.describe(node, storage));
    step.emit = [host_asks = asks_host(node), own = NodeCall(graph, node)](const StepContext& context, Launcher& launcher) mutable {
      const std::uint32_t predicate = own.node().predicate;
      Call call = own.in(context);
      const bool any = call.outputs.size() == 0 ||
                       std::ranges::any_of(call.outputs, [](const Tensor& t) { return t.present() && t.elements() > 0; });
      if (!any || (host_asks && launcher.is_dead(context.tensor(predicate)))) return;
      if (!host_asks && predicate != QUERN_NONE) call.predicate = context.tensor(predicate);
      implementation_of(own.node()).emit(call, launcher);
    };
    schedule.steps.push_back(std::move(step));
  }
  return schedule;
}

}  // namespace quern::cuda
