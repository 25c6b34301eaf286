// See graph.hpp.
#include "graph.hpp"

#include "packed/registry.hpp"

#include <algorithm>

namespace quern::cpu {

TensorView view_of(const sdk::ResolvedValue& value) {
  const sdk::Tensor& t = value.tensor;
  TensorView view;
  view.dtype = t.dtype;
  view.rank = t.rank;
  view.ranged = t.ranged;
  std::copy_n(t.dims, t.rank, view.dims);
  std::copy_n(t.strides, t.rank, view.strides);
  if (t.packed_layout) view.layout = parse_packed_key(value.layout).layout;
  return view;
}

OpCall describe_call(const Graph& graph, const Node& node, std::uint32_t thread_count, bool deterministic,
                     std::vector<TensorView>& storage) {
  storage.clear();
  storage.reserve(node.inputs.size() + node.outputs.size());
  for (const auto* ids : {&node.inputs, &node.outputs})
    for (const std::uint32_t id : *ids) storage.push_back(id == QUERN_NONE ? TensorView{} : view_of(graph.values[id]));
  OpCall call;
  call.op = node.op;
  call.thread_count = thread_count;
  call.exact_order = deterministic || node.invariant;
  call.conversions = node.conversions;
  call.inputs = {storage.data(), node.inputs.size()};
  call.outputs = {storage.data() + node.inputs.size(), node.outputs.size()};
  call.attributes = node.attributes.get();
  if (node.row_predicate) call.predicate = view_of(graph.values[node.predicate]);
  return call;
}

}  // namespace quern::cpu
