// See graph_copy.hpp.
#include "graph_copy.hpp"

#include <algorithm>

namespace quern::mutant {
namespace {

/// A copy holds no more than this side knows.
template <class T>
T clamped(T s) {
  s.header.struct_size = std::min<std::uint32_t>(s.header.struct_size, sizeof(T));
  return s;
}

/// A list of a graph, which no graph of the suite has that long: a malformed one is not walked to its claimed end.
template <class T>
sdk::List<T> list_of(const quern_array& array, const char* what) {
  if (array.count > 1u << 16) throw sdk::Failure(QUERN_INVALID_ARGUMENT, sdk::concat(what, ": ", array.count, " elements"));
  return sdk::List<T>(array, what);
}

template <class T>
quern_array array_of(const std::vector<T>& list) {
  return {list.data(), list.size(), sizeof(T)};
}

}  // namespace

quern_attribute* NodeCopy::attribute(std::uint32_t key) noexcept {
  for (quern_attribute& a : attributes)
    if (a.key == key) return &a;
  return nullptr;
}

double NodeCopy::number(std::uint32_t key, double fallback) const noexcept {
  for (const quern_attribute& a : attributes)
    if (a.key == key) return a.type == QUERN_ATTR_I64 ? static_cast<double>(a.i) : a.f;
  return fallback;
}

GraphCopy::GraphCopy(const quern_graph* graph) : graph_(clamped(sdk::read(graph))) {
  for (const quern_value& v : list_of<quern_value>(graph_.values, "values")) values.push_back(clamped(v));
  for (const quern_symbol& s : list_of<quern_symbol>(graph_.symbols, "symbols")) symbols_.push_back(s);
  for (const quern_node& n : list_of<quern_node>(graph_.nodes, "nodes")) {
    NodeCopy node{clamped(n), {}, {}, {}};
    for (const std::uint32_t v : list_of<std::uint32_t>(n.inputs, "inputs")) node.inputs.push_back(v);
    for (const std::uint32_t v : list_of<std::uint32_t>(n.outputs, "outputs")) node.outputs.push_back(v);
    for (const quern_attribute& a : list_of<quern_attribute>(n.attributes, "attributes")) node.attributes.push_back(a);
    nodes.push_back(std::move(node));
  }
}

const quern_graph* GraphCopy::view() {
  flat_.clear();
  for (NodeCopy& n : nodes) {
    n.fields.inputs = array_of(n.inputs);
    n.fields.outputs = array_of(n.outputs);
    n.fields.attributes = array_of(n.attributes);
    flat_.push_back(n.fields);
  }
  graph_.values = array_of(values);
  graph_.nodes = array_of(flat_);
  graph_.symbols = array_of(symbols_);
  return &graph_;
}

}  // namespace quern::mutant
