// See case_graph.hpp.
#include "device_run/case_graph.hpp"

#include "device_run/abi_attribute.hpp"

#include <algorithm>
#include <stdexcept>
#include <string_view>

namespace quern::conformance {

quern_attribute abi_attribute(const Attribute& a) {
  switch (a.key) {
#define QUERN_KEY(id, NAME, name, type) \
  case id: \
    return std::string_view(#type) == "I64" ? quern_attribute{id, QUERN_ATTR_I64, static_cast<std::int64_t>(a.value), 0.0} \
                                            : quern_attribute{id, QUERN_ATTR_F64, 0, a.value};
#include "quern/keys.def"
#undef QUERN_KEY
    default: throw std::logic_error("a case has an attribute without a key");
  }
}

CaseGraph::CaseGraph(const Case& c, std::uint32_t conversions, std::uint32_t determinism) : case_(c) {
  values_.reserve(c.inputs.size() + c.outputs.size() + 2);
  for (std::size_t i = 0; i < c.inputs.size(); ++i)
    input_ids_.push_back(c.inputs[i].absent() ? QUERN_NONE : add(c.inputs[i], (c.ranged.inputs >> i & 1u) != 0));
  for (std::size_t o = 0; o < c.outputs.size(); ++o) {
    const ValueSpec& spec = c.outputs[o];
    if (spec.observed) {
      output_ids_.push_back(input_ids_.at(static_cast<std::size_t>(spec.in_place_of)));
      values_[output_ids_.back()].kind = QUERN_VALUE_STATE;  // the node writes it
      continue;
    }
    output_ids_.push_back(spec.absent() ? QUERN_NONE : add(spec, (c.ranged.outputs >> o & 1u) != 0));
    node_outputs_.push_back(output_ids_.back());
  }
  if (c.ranged.most != 0 && c.ranged.on_device) count_id_ = add_count();
  layouts_.resize(values_.size());
  node_inputs_ = input_ids_;
  node_.predicate = QUERN_NONE;
  if (c.predicated) {
    node_.predicate = node_inputs_.back();
    node_.uses |= QUERN_NODE_USES_PREDICATE;
    node_inputs_.pop_back();
  }
  while (!node_inputs_.empty() && node_inputs_.back() == QUERN_NONE) node_inputs_.pop_back();
  while (!node_outputs_.empty() && node_outputs_.back() == QUERN_NONE) node_outputs_.pop_back();
  for (const Attribute& a : c.attributes) attributes_.push_back(abi_attribute(a));

  node_.header = {sizeof node_, QUERN_TYPE_NODE, nullptr};
  node_.op = c.op;
  node_.op_revision = 1;
  node_.inputs = {node_inputs_.data(), node_inputs_.size(), sizeof(std::uint32_t)};
  node_.outputs = {node_outputs_.data(), node_outputs_.size(), sizeof(std::uint32_t)};
  node_.attributes = {attributes_.data(), attributes_.size(), sizeof(quern_attribute)};
  node_.accumulate = QUERN_F32;
  node_.conversions = conversions;
  node_.determinism = determinism;
  node_.uses |= QUERN_NODE_USES_DETERMINISM | (conversions != 0 ? QUERN_NODE_USES_PRECISION : 0);
  graph_.header = {sizeof graph_, QUERN_TYPE_GRAPH, nullptr};
  graph_.values = {values_.data(), values_.size(), sizeof(quern_value)};
  graph_.nodes = {&node_, 1, sizeof(quern_node)};
  if (c.ranged.most == 0) return;
  symbol_ = {{"rows", 4}, 0, c.ranged.most, 1, count_id_, 0};
  graph_.symbols = {&symbol_, 1, sizeof symbol_};
}

std::uint32_t CaseGraph::add_count() {
  ValueSpec spec;
  spec.dtype = QUERN_I32;
  spec.dims = {1};
  spec.kind = QUERN_VALUE_STATE;
  return add(spec, false);
}

std::uint32_t CaseGraph::add(const ValueSpec& spec, bool ranged) {
  quern_value v{};
  v.header = {sizeof v, QUERN_TYPE_VALUE, nullptr};
  v.kind = spec.kind;
  v.dtype = spec.dtype;
  v.rank = static_cast<std::uint32_t>(spec.dims.size());
  v.alias_of = QUERN_NONE;
  if (spec.dims.size() > QUERN_MAX_DIMS) throw std::logic_error("a case has a value of more dimensions than the ABI holds");
  std::copy(spec.dims.begin(), spec.dims.end(), v.dims);
  if (ranged) {
    v.uses |= QUERN_VALUE_USES_SYMBOLS;
    v.dims[0] = case_.ranged.most;
    v.symbols[0] = 1;
  }
  if (spec.in_place_of >= 0) {
    const std::uint32_t input = input_ids_.at(static_cast<std::size_t>(spec.in_place_of));
    v.uses |= QUERN_VALUE_USES_ALIAS;
    v.alias_of = input;
    values_[input].kind = QUERN_VALUE_STATE;  // it is read and written
    v.kind = QUERN_VALUE_INTERNAL;            // it has no memory of its own
  }
  const Layout& layout = spec.in_place_of >= 0 ? case_.inputs[static_cast<std::size_t>(spec.in_place_of)].layout : spec.layout;
  if (!layout.packed()) {
    const Placement placement(spec.dtype, spec.dims, layout);
    v.uses |= QUERN_VALUE_USES_STRIDES;
    std::copy(placement.strides().begin(), placement.strides().end(), v.strides);
  }
  if (const quern_format* format = format_of(spec.dtype)) {
    v.uses |= QUERN_VALUE_USES_FORMAT;
    v.format_hash = format->hash;
  }
  values_.push_back(v);
  return static_cast<std::uint32_t>(values_.size() - 1);
}

void CaseGraph::set_layout(std::uint32_t value, std::string layout) {
  layouts_.at(value) = std::move(layout);
  values_[value].layout = {layouts_[value].data(), layouts_[value].size()};
  values_[value].uses |= QUERN_VALUE_USES_LAYOUT;
}

void CaseGraph::set_data(std::uint32_t value, std::span<const std::byte> bytes) {
  values_.at(value).data = bytes.data();
  values_[value].data_bytes = bytes.size();
  values_[value].uses |= QUERN_VALUE_USES_DATA;
}

}  // namespace quern::conformance
