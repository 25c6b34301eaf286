// See schedule.hpp.
#include "schedule.hpp"

namespace quern::vulkan {

Step& Schedule::add(std::vector<std::uint32_t> nodes, const char* kernel) {
  Step& added = steps.emplace_back();
  added.node = nodes.front();
  added.nodes = std::move(nodes);
  added.kernel = kernel;
  return added;
}

void Schedule::place(const sdk::ResolvedGraph& graph) {
  node_scratch.assign(graph.nodes.size(), 0);
  std::vector<sdk::StepMemory> memory;
  std::vector<Tensor> storage;
  for (const Step& step : steps) {
    sdk::StepMemory m;
    if (step.emit) {
      m.values = step.reads;
      m.values.insert(m.values.end(), step.writes.begin(), step.writes.end());
      m.extras = step.extra_reads;
      m.extras.insert(m.extras.end(), step.extra_writes.begin(), step.extra_writes.end());
      m.extras.insert(m.extras.end(), step.extra_uses.begin(), step.extra_uses.end());
    } else {
      const sdk::ResolvedNode& node = graph.nodes[step.node];
      const Op& op = static_cast<const Op&>(*node.offer);
      m.values = node.inputs;
      m.values.insert(m.values.end(), node.outputs.begin(), node.outputs.end());
      m.values.push_back(node.predicate);
      if (op.scratch != nullptr) m.scratch = op.scratch(graph.describe(node, storage));
      node_scratch[step.node] = m.scratch;
    }
    memory.push_back(std::move(m));
  }
  layout = sdk::lay_out_scratch(graph, memory, extras);
}

Schedule general_schedule(const sdk::ResolvedGraph& graph) {
  Schedule schedule;
  for (std::uint32_t n = 0; n < graph.nodes.size(); ++n) {
    schedule.add({n}, graph.nodes[n].offer->kernel);
    schedule.alone.push_back({n, "", "an option switches off kernels of several nodes"});
  }
  return schedule;
}

}  // namespace quern::vulkan
