// See plan_check.hpp.
#include "plan_check.hpp"

#include "error.hpp"
#include "op_signature.hpp"

#include <algorithm>

namespace quern::cpu {
namespace {

bool same_place(const Value& a, const Value& b) noexcept {
  return a.root_offset == b.root_offset && a.view.dtype == b.view.dtype && same_shape(a.view, b.view) &&
         std::equal(a.view.strides, a.view.strides + a.view.rank, b.view.strides);
}

/// Do two views of one root share a byte? Exact for views that are columns of the same rows, else by their whole ranges.
bool share_bytes(const Value& a, const Value& b) noexcept {
  if (a.bytes == 0 || b.bytes == 0) return false;
  if (a.root_offset + a.bytes <= b.root_offset || b.root_offset + b.bytes <= a.root_offset) return false;
  const TensorView &x = a.view, &y = b.view;
  if (x.rank < 2 || y.rank < 2 || x.strides[0] != y.strides[0] || x.strides[0] == 0) return true;
  const auto row_bytes = [](const Value& v) { return static_cast<std::int64_t>(v.bytes) - (v.view.dims[0] - 1) * v.view.strides[0]; };
  const std::int64_t step = x.strides[0];
  const std::int64_t from_a = static_cast<std::int64_t>(a.root_offset) % step, from_b = static_cast<std::int64_t>(b.root_offset) % step;
  if (from_a + row_bytes(a) > step || from_b + row_bytes(b) > step) return true;
  return from_a < from_b + row_bytes(b) && from_b < from_a + row_bytes(a);
}

}  // namespace

Verdict check_overlap(const Graph& graph, const Node& node) {
  const OpSignature& op = *find_op(node.op);
  if (const std::uint32_t count = node.op == QUERN_OP_TOKEN_PUBLISH ? node.inputs[1] : QUERN_NONE;
      count != QUERN_NONE && graph.values[graph.values[count].root].kind != QUERN_VALUE_STATE)
    return Verdict::invalid("token_publish: sequence_number is counted up in place, so it is of kind state");
  const bool in_place = op.group == "elementwise" || op.group == "activation" || op.group == "norm" || op.group == "rope";
  for (std::size_t o = 0; o < node.outputs.size(); ++o) {
    if (node.outputs[o] == QUERN_NONE) continue;
    const Value& output = graph.values[node.outputs[o]];
    for (std::size_t other = 0; other < o; ++other) {
      if (node.outputs[other] == QUERN_NONE) continue;
      const Value& second = graph.values[node.outputs[other]];
      if (second.root == output.root && share_bytes(second, output))
        return Verdict::invalid(concat(op.name, ": outputs ", other, " and ", o, " share memory"));
    }
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == QUERN_NONE) continue;
      const Value& input = graph.values[node.inputs[i]];
      if (input.root != output.root || !share_bytes(input, output)) continue;
      const bool within_cache = node.op == QUERN_OP_KV_COPY || node.op == QUERN_OP_KV_MOVE;  // their input is the cache that they write
      if (same_place(input, output) && (in_place || within_cache)) continue;
      return Verdict::invalid(concat(op.name, ": output ", o, " shares memory with input ", i,
                                     in_place ? " but is not the same view of it" : "; this op does not run in place"));
    }
  }
  return Verdict::yes();
}

void check_order(const Graph& graph) {
  std::vector<char> written(graph.values.size(), 0);
  const auto read = [&](std::uint32_t id, std::uint32_t node) {
    if (id == QUERN_NONE) return;
    const std::uint32_t root = graph.values[id].root;
    if (graph.values[root].kind == QUERN_VALUE_INTERNAL && !written[root])
      throw Error(QUERN_INVALID_ARGUMENT, concat("node ", node, " reads value ", id, " before any node writes it"), node);
  };
  for (std::uint32_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    for (const std::uint32_t id : node.inputs) read(id, n);
    read(node.predicate, n);
    for (const std::uint32_t id : node.outputs) {
      if (id == QUERN_NONE) continue;
      const std::uint32_t root = graph.values[id].root, kind = graph.values[root].kind;
      if (kind == QUERN_VALUE_CONSTANT || kind == QUERN_VALUE_INPUT)
        throw Error(QUERN_INVALID_ARGUMENT,
                    concat("node ", n, " writes value ", id, ", which is ", kind == QUERN_VALUE_INPUT ? "an input" : "a constant"), n);
      written[root] = 1;
    }
  }
  for (std::size_t id = 0; id < graph.values.size(); ++id)
    if (graph.values[id].kind == QUERN_VALUE_OUTPUT && graph.values[id].root == id && !written[id])
      throw Error(QUERN_INVALID_ARGUMENT, concat("value ", id, " is an output but no node writes it"));
}

}  // namespace quern::cpu
