// Flattens a graph into the arrays that a plugin reads.
#include "strides.hpp"

#include "quern/graph/graph.hpp"

#include <algorithm>

namespace quern::graph {
namespace {

quern_string text(const std::string& from) { return {from.data(), from.size()}; }

template <typename Element>
quern_array array(const std::vector<Element>& from) {
  return {from.empty() ? nullptr : from.data(), from.size(), sizeof(Element)};
}

quern_value flatten(const Value& value) {
  quern_value flat{};
  flat.header = {sizeof(quern_value), QUERN_TYPE_VALUE, nullptr};
  flat.kind = value.kind;
  flat.dtype = value.dtype;
  flat.rank = static_cast<std::uint32_t>(value.shape.size());
  flat.alias_of = value.alias_of;
  flat.alias_offset = value.alias_offset;
  flat.format_hash = format_hash(value.dtype);
  flat.name = text(value.name);
  const std::vector<std::int64_t> strides = value.strides.empty() ? contiguous_strides(value.dtype, value.shape) : value.strides;
  for (std::size_t i = 0; i < value.shape.size(); ++i) {
    flat.dims[i] = value.shape[i].size;
    flat.symbols[i] = value.shape[i].symbol;
    flat.strides[i] = strides[i];
    if (value.shape[i].symbol != 0) flat.uses |= QUERN_VALUE_USES_SYMBOLS;
  }
  if (!value.strides.empty()) flat.uses |= QUERN_VALUE_USES_STRIDES;
  if (value.alias_of != no_value) flat.uses |= QUERN_VALUE_USES_ALIAS;
  flat.layout = text(value.layout);
  if (!value.layout.empty()) flat.uses |= QUERN_VALUE_USES_LAYOUT;
  if (flat.format_hash != 0) flat.uses |= QUERN_VALUE_USES_FORMAT;
  return flat;
}

quern_node flatten(const Node& node, const std::vector<quern_attribute>& attributes) {
  quern_node flat{};
  flat.header = {sizeof(quern_node), QUERN_TYPE_NODE, nullptr};
  flat.op = node.op;
  flat.op_revision = node.op_revision;
  flat.inputs = array(node.inputs);
  flat.outputs = array(node.outputs);
  flat.attributes = array(attributes);
  flat.predicate = node.predicate;
  flat.body = QUERN_NONE;
  flat.accumulate = QUERN_F32;
  flat.conversions = node.conversions;
  flat.determinism = node.determinism;
  flat.name = text(node.name);
  if (node.predicate != no_value) flat.uses |= QUERN_NODE_USES_PREDICATE;
  if (node.conversions != QUERN_CONVERT_NONE) flat.uses |= QUERN_NODE_USES_PRECISION;
  if (node.determinism != QUERN_DETERMINISM_FREE) flat.uses |= QUERN_NODE_USES_DETERMINISM;
  return flat;
}

quern_symbol flatten(const Symbol& symbol) { return {text(symbol.name), symbol.min, symbol.max, symbol.multiple_of, symbol.extent, 0}; }

}  // namespace

struct GraphView::Storage {
  std::vector<quern_value> values;
  std::vector<quern_node> nodes;
  std::vector<quern_symbol> symbols;
  std::vector<std::vector<quern_attribute>> attributes;  // by node
  quern_graph graph{};
};

GraphView::GraphView(std::unique_ptr<Storage> storage) : storage_(std::move(storage)) {}
GraphView::GraphView(GraphView&&) noexcept = default;
GraphView::~GraphView() = default;

const quern_graph* GraphView::get() const noexcept { return &storage_->graph; }

GraphView Graph::view_for_plugin() const {
  auto storage = std::make_unique<GraphView::Storage>();
  storage->values.reserve(values_.size());
  storage->nodes.reserve(nodes_.size());
  for (const Value& value : values_) storage->values.push_back(flatten(value));
  for (const Symbol& symbol : symbols_) storage->symbols.push_back(flatten(symbol));
  storage->attributes.reserve(nodes_.size());
  for (const Node& node : nodes_) {
    std::vector<quern_attribute>& attributes = storage->attributes.emplace_back();
    for (const Attribute& a : node.attributes.all()) attributes.push_back({a.key, a.type, a.i, a.f});
    storage->nodes.push_back(flatten(node, attributes));
  }
  storage->graph.header = {sizeof(quern_graph), QUERN_TYPE_GRAPH, nullptr};
  storage->graph.values = array(storage->values);
  storage->graph.nodes = array(storage->nodes);
  storage->graph.symbols = array(storage->symbols);
  storage->graph.bodies = {nullptr, 0, sizeof(quern_graph)};
  storage->graph.name = text(name_);
  return GraphView(std::move(storage));
}

}  // namespace quern::graph
