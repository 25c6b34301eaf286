// See graph.hpp.
#include "graph.hpp"

#include "packed/registry.hpp"

namespace quern::cpu {

Call describe_call(const Graph& graph, const Node& node, std::uint32_t thread_count, bool deterministic, std::vector<Tensor>& storage) {
  Call call{graph.describe(node, storage), thread_count};
  call.invariant = call.invariant || deterministic;
  for (const std::uint32_t id : node.inputs)
    if (id != QUERN_NONE && graph.values[id].tensor.packed_layout) call.layout = parse_packed_key(graph.values[id].layout).layout;
  return call;
}

}  // namespace quern::cpu
