// See graph.hpp.
#include "abi/graph.hpp"

#include "data/tensor.hpp"

#include <algorithm>

namespace quern::conformance::abi {

std::uint32_t Graph::value(std::uint32_t kind, const Dims& dims, quern_dtype dtype) {
  quern_value v = made<quern_value>(QUERN_TYPE_VALUE);
  v.kind = kind;
  v.dtype = dtype;
  v.rank = static_cast<std::uint32_t>(dims.size());
  std::copy(dims.begin(), dims.end(), v.dims);
  v.alias_of = QUERN_NONE;
  v.name = {"value", 5};
  if (const quern_format* format = format_of(dtype)) {
    v.uses |= QUERN_VALUE_USES_FORMAT;
    v.format_hash = format->hash;
  }
  values.push_back(v);
  return static_cast<std::uint32_t>(values.size() - 1);
}

std::uint32_t Graph::symbol(std::int64_t min, std::int64_t max, std::uint32_t extent, std::int64_t multiple_of) {
  symbols.push_back({{"rows", 4}, min, max, multiple_of, extent, 0});
  return static_cast<std::uint32_t>(symbols.size() - 1);
}

void Graph::range(std::uint32_t value, std::uint32_t dimension, std::uint32_t symbol) {
  values.at(value).symbols[dimension] = symbol + 1;
  values[value].uses |= QUERN_VALUE_USES_SYMBOLS;
}

quern_node& Graph::node(std::uint32_t op, std::vector<std::uint32_t> inputs, std::vector<std::uint32_t> outputs,
                        std::vector<quern_attribute> attributes) {
  ids_.push_back(std::make_unique<std::vector<std::uint32_t>>(std::move(inputs)));
  ids_.push_back(std::make_unique<std::vector<std::uint32_t>>(std::move(outputs)));
  attributes_.push_back(std::make_unique<std::vector<quern_attribute>>(std::move(attributes)));
  quern_node n = made<quern_node>(QUERN_TYPE_NODE);
  n.op = op;
  n.op_revision = 1;
  n.inputs = array_of(*ids_[ids_.size() - 2]);
  n.outputs = array_of(*ids_.back());
  n.attributes = array_of(*attributes_.back());
  n.predicate = n.body = QUERN_NONE;
  n.accumulate = QUERN_F32;
  n.name = {"node", 4};
  nodes.push_back(n);
  return nodes.back();
}

void Graph::predicate(quern_node& node, std::uint32_t value) {
  node.predicate = value;
  node.uses |= QUERN_NODE_USES_PREDICATE;
}

const quern_graph* Graph::get() {
  graph_ = made<quern_graph>(QUERN_TYPE_GRAPH);
  graph_.values = array_of(values);
  graph_.nodes = array_of(nodes);
  graph_.symbols = array_of(symbols);
  return &graph_;
}

}  // namespace quern::conformance::abi
