// See flat_graph.hpp.
#include "device_run/flat_graph.hpp"

#include "device_run/abi_attribute.hpp"

#include <algorithm>
#include <string_view>

namespace quern::conformance {
namespace {

bool has_contents(std::uint32_t kind) { return kind == QUERN_VALUE_INPUT || kind == QUERN_VALUE_CONSTANT || kind == QUERN_VALUE_STATE; }

}  // namespace

FlatGraph::FlatGraph(const WholeGraph& whole, Numerics numerics, const std::set<int>& marked, std::uint32_t determinism)
    : whole_(whole), determinism_(determinism) {
  for (int v = 0; v < static_cast<int>(whole.values.size()); ++v) {
    const GraphValue& value = whole.values[static_cast<std::size_t>(v)];
    if (value.alias_of != no_value) add_value(v, QUERN_VALUE_INTERNAL, ids_.at(whole.root(v)));
    else add_value(v, marked.contains(v) ? std::uint32_t{QUERN_VALUE_OUTPUT} : value.spec.kind, QUERN_NONE);
  }
  for (const GraphNode& node : whole.nodes) add_node(node, numerics);
  finish();
}

FlatGraph::FlatGraph(const WholeGraph& whole, Numerics numerics, OnlyNode node) : whole_(whole) {
  const GraphNode& n = whole.nodes[node.at];
  const auto kind_of = [&](int v) { return whole.values[static_cast<std::size_t>(whole.root(v))].spec.kind; };
  std::vector<int> reads = n.inputs;
  reads.push_back(n.predicate);
  for (const int v : reads) {
    if (v == no_value || ids_.contains(v)) continue;
    if (whole.is_part(v)) {
      add_part(v, kind_of(v));
      continue;
    }
    const bool written = std::ranges::any_of(n.outputs, [&](int y) { return y != no_value && whole.root(y) == whole.root(v); });
    const std::uint32_t kind = kind_of(v);
    add_value(v, written ? std::uint32_t{QUERN_VALUE_STATE} : has_contents(kind) ? kind : std::uint32_t{QUERN_VALUE_INPUT}, QUERN_NONE);
  }
  for (const int y : n.outputs) {
    if (y == no_value || ids_.contains(y)) continue;
    const auto in = std::ranges::find_if(reads, [&](int v) { return v != no_value && whole.root(y) == whole.root(v); });
    if (in != reads.end()) add_value(y, QUERN_VALUE_INTERNAL, ids_.at(*in));
    else add_value(y, kind_of(y) == QUERN_VALUE_STATE ? std::uint32_t{QUERN_VALUE_STATE} : std::uint32_t{QUERN_VALUE_OUTPUT}, QUERN_NONE);
  }
  add_node(n, numerics);
  finish();
}

/// Where a part lies in its root.
void FlatGraph::add_place(const GraphValue& part, quern_value& v) const {
  v.alias_offset = part.part_offset;
  if (static_cast<std::uint64_t>(part.part_row_bytes) * static_cast<std::uint64_t>(part.spec.dims[0]) ==
      packed_bytes(part.spec.dtype, part.spec.dims))
    return;
  auto inner = static_cast<std::int64_t>(unit_of(part.spec.dtype).bytes);
  for (std::size_t d = part.spec.dims.size(); d-- > 1; inner *= part.spec.dims[d]) v.strides[d] = inner;
  v.strides[0] = part.part_row_bytes;
  v.uses |= QUERN_VALUE_USES_STRIDES;
}

/// Of one node alone: a part that it reads, and the root, which is bound.
void FlatGraph::add_part(int value, std::uint32_t kind) {
  const int root = whole_.root(value);
  if (!ids_.contains(root)) add_value(root, has_contents(kind) ? kind : std::uint32_t{QUERN_VALUE_INPUT}, QUERN_NONE);
  add_value(value, QUERN_VALUE_INTERNAL, ids_.at(root));
}

std::uint32_t FlatGraph::add_value(int value, std::uint32_t kind, std::uint32_t alias_of) {
  const GraphValue& from = whole_.values[static_cast<std::size_t>(value)];
  const auto id = static_cast<std::uint32_t>(values_.size());
  quern_value v{};
  v.header = {sizeof v, QUERN_TYPE_VALUE, nullptr};
  v.kind = kind;
  v.dtype = from.spec.dtype;
  v.rank = static_cast<std::uint32_t>(from.spec.dims.size());
  std::ranges::copy(from.spec.dims, v.dims);
  v.alias_of = alias_of;
  v.name = {from.name.data(), from.name.size()};
  if (alias_of != QUERN_NONE) v.uses |= QUERN_VALUE_USES_ALIAS;
  if (from.part_row_bytes != 0) add_place(from, v);
  if (from.ranged) {
    v.symbols[0] = from.extent == Extent::outputs ? 2 : 1;
    v.uses |= QUERN_VALUE_USES_SYMBOLS;
  }
  if (const quern_format* format = format_of(from.spec.dtype)) {
    v.uses |= QUERN_VALUE_USES_FORMAT;
    v.format_hash = format->hash;
  }
  values_.push_back(v);
  values_of_.push_back(value);
  ids_[value] = id;
  if (kind != QUERN_VALUE_INTERNAL) bound_[value] = id;
  return id;
}

void FlatGraph::add_node(const GraphNode& node, Numerics numerics) {
  auto data = std::make_unique<Node>();
  const auto id = [&](int v) { return v == no_value ? QUERN_NONE : ids_.at(v); };
  for (const int v : node.inputs) data->inputs.push_back(id(v));
  for (const int v : node.outputs) data->outputs.push_back(id(v));
  for (const Attribute& a : node.attributes) data->attributes.push_back(abi_attribute(a));
  quern_node n{};
  n.header = {sizeof n, QUERN_TYPE_NODE, nullptr};
  n.op = node.op;
  n.op_revision = 1;
  n.inputs = {data->inputs.data(), data->inputs.size(), sizeof(std::uint32_t)};
  n.outputs = {data->outputs.data(), data->outputs.size(), sizeof(std::uint32_t)};
  n.attributes = {data->attributes.data(), data->attributes.size(), sizeof(quern_attribute)};
  n.predicate = id(node.predicate);
  n.accumulate = QUERN_F32;
  n.conversions = numerics == Numerics::fast ? node.fast_conversions : 0;
  n.determinism = determinism_;
  n.uses = QUERN_NODE_USES_DETERMINISM | (n.conversions != 0 ? QUERN_NODE_USES_PRECISION : 0) |
           (node.predicate != no_value ? QUERN_NODE_USES_PREDICATE : 0);
  node_data_.push_back(std::move(data));
  nodes_.push_back(n);
}

void FlatGraph::finish() {
  graph_.header = {sizeof graph_, QUERN_TYPE_GRAPH, nullptr};
  graph_.values = {values_.data(), values_.size(), sizeof(quern_value)};
  graph_.nodes = {nodes_.data(), nodes_.size(), sizeof(quern_node)};
  const auto add_symbol = [&](std::string_view name, std::int64_t least, std::int64_t most) {
    if (most == 0) return;
    quern_symbol& symbol = symbols_.emplace_back();
    symbol.name = {name.data(), name.size()};
    symbol.min = least;
    symbol.max = most;
    symbol.multiple_of = 1;
    symbol.extent = QUERN_NONE;
  };
  add_symbol("rows", whole_.most.outputs == 0 ? 0 : 1, whole_.most.rows);  // a session's step has a row and perhaps no output
  add_symbol("outputs", 0, whole_.most.outputs);
  graph_.symbols = {symbols_.data(), symbols_.size(), sizeof(quern_symbol)};
}

void FlatGraph::set_layout(int value, const std::string& layout) {
  const auto at = ids_.find(value);
  if (at == ids_.end()) return;
  const std::string& kept = layouts_[value] = layout;
  values_[at->second].layout = {kept.data(), kept.size()};
  values_[at->second].uses |= QUERN_VALUE_USES_LAYOUT;
}

void FlatGraph::set_data(int value, std::span<const std::byte> bytes) {
  const auto at = ids_.find(value);
  if (at == ids_.end()) return;
  values_[at->second].data = bytes.data();
  values_[at->second].data_bytes = bytes.size();
  values_[at->second].uses |= QUERN_VALUE_USES_DATA;
}

}  // namespace quern::conformance
