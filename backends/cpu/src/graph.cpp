// Checks and copies a graph. See graph.hpp.
#include "graph.hpp"

#include "abi_list.hpp"
#include "formats.hpp"
#include "op_signature.hpp"
#include "packed/registry.hpp"

#include "quern/quern_formats.h"
#include "quern/quern_min_sizes.h"

#include <algorithm>

namespace quern::cpu {
namespace {

// Larger offsets would let a sum of six products overflow; no machine has that much memory.
constexpr std::int64_t max_offset = std::int64_t{1} << 56;

/// What errors call a value; made into text only where there is one, since a graph has tens of thousands of values.
struct ValueName {
  const Value& value;
  std::uint64_t id;
  friend std::ostream& operator<<(std::ostream& out, const ValueName& name) {
    return out << "value " << name.id << (name.value.name.empty() ? "" : " ") << name.value.name;
  }
};
ValueName value_name(const Value& value, std::uint64_t id) { return {value, id}; }

/// a * b, or an error beyond max_offset. Both are >= 0.
std::int64_t checked_product(std::int64_t a, std::int64_t b, const ValueName& name) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product) || product > max_offset)
    throw Error(QUERN_INVALID_ARGUMENT, concat(name, ": its size is beyond 2^56 bytes"));
  return product;
}

void read_dims(const quern_value& from, std::uint64_t symbol_count, Value& value, const ValueName& name) {
  TensorView& view = value.view;
  for (std::uint32_t d = 0; d < view.rank; ++d) {
    view.dims[d] = from.dims[d];
    if (from.dims[d] < 0) throw Error(QUERN_INVALID_ARGUMENT, concat(name, ": dimension ", d, " is ", from.dims[d]));
    if ((from.uses & QUERN_VALUE_USES_SYMBOLS) == 0 || from.symbols[d] == 0) continue;
    if (from.symbols[d] > symbol_count)
      throw Error(QUERN_INVALID_ARGUMENT, concat(name, ": dimension ", d, " names symbol ", from.symbols[d] - 1, " of ", symbol_count));
    value.symbols[d] = from.symbols[d];
    view.ranged |= 1u << d;
  }
}

/// Byte strides: the host's, or those of packed rows; and the bytes that the value covers.
void read_strides(const quern_value& from, Value& value, const ValueName& name) {
  TensorView& view = value.view;
  const std::int64_t elements = unit_elements(view.dtype), bytes = unit_bytes(view.dtype);
  const bool strided = (from.uses & QUERN_VALUE_USES_STRIDES) != 0;
  if (elements > 1) {
    if (view.rank == 0 || view.dims[view.rank - 1] % elements != 0)
      throw Error(QUERN_INVALID_ARGUMENT, concat(name, ": ", dtype_name(view.dtype), " needs a row length that is a multiple of ", elements,
                                                 ", this is ", row_length(view)));
    if (value.symbols[view.rank - 1] != 0)
      throw Error(QUERN_INVALID_ARGUMENT, concat(name, ": the row length of a block format cannot be ranged"));
  }
  std::int64_t packed = bytes, last = 0;
  for (std::uint32_t d = view.rank; d-- > 0;) {
    const std::int64_t units = d + 1 == view.rank ? view.dims[d] / elements : view.dims[d];
    view.strides[d] = strided ? from.strides[d] : packed;
    if (view.strides[d] < 0)
      throw Error(QUERN_UNSUPPORTED, concat(name, ": stride ", d, " is ", view.strides[d], "; negative strides are not taken"));
    last += units > 1 ? checked_product(units - 1, view.strides[d], name) : 0;
    if (last > max_offset) throw Error(QUERN_INVALID_ARGUMENT, concat(name, ": its size is beyond 2^56 bytes"));
    packed = checked_product(packed, std::max<std::int64_t>(1, units), name);
  }
  value.bytes = view_bytes(view);
}

/// The layout of a packed weight, which has to be one of this plugin's for this matrix on this processor.
void read_layout(const quern_value& from, Value& value, const ValueName& name) {
  const std::string text = read_string(from.layout);
  const PackedKey key = parse_packed_key(text);
  TensorView& view = value.view;
  if (key.layout == nullptr) {
    value.verdict = Verdict::no(concat(name, " is packed as '", text, "', which is no layout of this plugin on this processor"));
  } else if (value.kind != QUERN_VALUE_CONSTANT || (from.uses & (QUERN_VALUE_USES_ALIAS | QUERN_VALUE_USES_STRIDES)) != 0 ||
             view.ranged != 0 || view.dtype != key.layout->format || view.rank != (key.experts == 0 ? 2u : 3u) ||
             view.dim_from_end(2) != key.matrices() || view.dim_from_end(1) != key.rows || view.dim_from_end(0) != key.k) {
    value.verdict =
        Verdict::no(concat(name, " is ", describe(view), " but packed as '", text, "'; only a plain constant of that format and shape is"));
  } else {
    view.layout = key.layout;
    value.bytes = view_bytes(view);
  }
}

Value read_value(const List<quern_value>& list, std::uint64_t id, std::uint64_t symbol_count) {
  const quern_value from = read_struct<quern_value>(list.address(id), QUERN_TYPE_VALUE, QUERN_MIN_SIZE_quern_value, "value");
  Value value;
  value.name = read_string(from.name);
  const ValueName name = value_name(value, id);
  value.kind = from.kind;
  value.root = static_cast<std::uint32_t>(id);
  value.view.dtype = from.dtype;
  value.view.rank = from.rank;
  if (from.rank > QUERN_MAX_DIMS)
    throw Error(QUERN_INVALID_ARGUMENT, concat(name, " has rank ", from.rank, ", the largest is ", QUERN_MAX_DIMS));
  if (from.kind > QUERN_VALUE_OUTPUT)
    throw Error(QUERN_UNSUPPORTED, concat(name, " is of kind ", from.kind, ", which this plugin does not know"));
  if ((from.uses & ~QUERN_VALUE_USES_ALL) != 0) {
    value.verdict = Verdict::no(concat(name, " uses a feature this plugin does not know (bits ", from.uses & ~QUERN_VALUE_USES_ALL, ")"));
    return value;
  }
  if (unit_bytes(from.dtype) == 0) {
    value.verdict = Verdict::no(concat(name, " has dtype ", from.dtype, ", which this plugin does not know"));
    return value;
  }
  if ((from.uses & QUERN_VALUE_USES_INDIRECT) != 0)
    value.verdict = Verdict::no(concat(name, " is addressed through device memory, which this plugin does not do"));
  if ((from.uses & QUERN_VALUE_USES_SNAPSHOT) != 0)
    value.verdict = Verdict::no(concat(name, " needs snapshots to roll back, which this plugin does not make"));
  if (const quern_format* format = find_format(from.dtype)) {
    if ((from.uses & QUERN_VALUE_USES_FORMAT) == 0 || from.format_hash != format->hash)
      value.verdict = Verdict::no(concat(name, ": the descriptor of format ", format->name.data, " has another hash than this plugin's"));
  } else if ((from.uses & QUERN_VALUE_USES_FORMAT) != 0) {
    value.verdict = Verdict::no(concat(name, " has a format descriptor but dtype ", dtype_name(from.dtype), " is no block format"));
  }
  read_dims(from, symbol_count, value, name);
  read_strides(from, value, name);
  if ((from.uses & QUERN_VALUE_USES_LAYOUT) != 0) read_layout(from, value, name);
  if ((from.uses & QUERN_VALUE_USES_ALIAS) != 0) {
    if (from.alias_of >= list.size() || from.alias_of == id)
      throw Error(QUERN_INVALID_ARGUMENT, concat(name, " is a view of value ", from.alias_of, " of ", list.size()));
    if (from.alias_offset > static_cast<std::uint64_t>(max_offset))
      throw Error(QUERN_INVALID_ARGUMENT, concat(name, ": alias_offset is ", from.alias_offset));
    value.root = from.alias_of;
    value.root_offset = from.alias_offset;
  }
  return value;
}

/// Follows views of views to the value that owns the memory, and checks that each view lies inside it.
void resolve_aliases(std::vector<Value>& values) {
  for (std::size_t id = 0; id < values.size(); ++id) {
    Value& value = values[id];
    if (value.root == id) continue;
    std::uint32_t at = value.root;
    std::uint64_t offset = value.root_offset;
    for (int depth = 0; values[at].root != at; ++depth) {
      if (depth == 16)
        throw Error(QUERN_INVALID_ARGUMENT, concat(value_name(value, id), " is a view of a view more than 16 deep, or of itself"));
      offset += values[at].root_offset;
      at = values[at].root;
    }
    const Value& root = values[at];
    if (offset > root.bytes || value.bytes > root.bytes - offset)
      throw Error(QUERN_INVALID_ARGUMENT, concat(value_name(value, id), " covers bytes ", offset, " to ", offset + value.bytes, " of ",
                                                 value_name(root, at), ", which has ", root.bytes));
    if (value.kind != QUERN_VALUE_INTERNAL && value.kind != root.kind)
      throw Error(QUERN_INVALID_ARGUMENT, concat(value_name(value, id), " is of kind ", value.kind, " but a view of ", value_name(root, at),
                                                 " of kind ", root.kind));
    if (!root.verdict) value.verdict = root.verdict;
    if (root.view.layout != nullptr) value.verdict = Verdict::no(concat(value_name(value, id), " is a view of a packed weight"));
    value.root = at;
    value.root_offset = offset;
  }
}

void read_symbols(const quern_graph& graph, Graph& out) {
  const List<quern_symbol> symbols(graph.symbols, QUERN_MIN_SIZE_quern_symbol, "graph.symbols");
  for (std::uint64_t i = 0; i < symbols.size(); ++i) {
    const quern_symbol from = symbols[i];
    const std::string name = concat("symbol ", i, " '", read_string(from.name), "'");
    if (from.min < 0 || from.max < from.min || from.max > max_offset)
      throw Error(QUERN_INVALID_ARGUMENT, concat(name, " ranges from ", from.min, " to ", from.max));
    if (from.extent != QUERN_NONE) {
      if (from.extent >= out.values.size())
        throw Error(QUERN_INVALID_ARGUMENT, concat(name, ": its extent is value ", from.extent, " of ", out.values.size()));
      const Value& extent = out.values[from.extent];
      if (extent.view.dtype != QUERN_I32 || element_count(extent.view) != 1 || extent.view.ranged != 0 ||
          extent.kind == QUERN_VALUE_INTERNAL)
        throw Error(QUERN_INVALID_ARGUMENT,
                    concat(name, ": its extent is ", describe(extent.view), "; it is one i32 in a state or input value"));
    }
    out.symbols.push_back({from.min, from.max, from.multiple_of, from.extent});
  }
  for (std::size_t id = 0; id < out.values.size(); ++id)
    for (std::uint32_t d = 0; d < out.values[id].view.rank; ++d)
      if (const std::uint32_t s = out.values[id].symbols[d]; s != 0 && out.values[id].view.dims[d] != out.symbols[s - 1].max)
        throw Error(QUERN_INVALID_ARGUMENT, concat(value_name(out.values[id], id), ": dimension ", d, " is ", out.values[id].view.dims[d],
                                                   " but the largest value of its symbol is ", out.symbols[s - 1].max));
}

std::vector<std::uint32_t> read_ids(const quern_array& array, const char* what, std::uint64_t node, std::size_t value_count) {
  const List<std::uint32_t> list(array, sizeof(std::uint32_t), what);
  std::vector<std::uint32_t> ids(list.size());
  for (std::uint64_t i = 0; i < list.size(); ++i) {
    ids[i] = list[i];
    if (ids[i] != QUERN_NONE && ids[i] >= value_count)
      throw Error(QUERN_INVALID_ARGUMENT, concat("node ", node, ": ", what, " ", i, " is value ", ids[i], " of ", value_count),
                  static_cast<std::uint32_t>(node));
  }
  return ids;
}

Verdict judge_node(const quern_node& from, const Graph& graph, Node& node) {
  const OpSignature* op = find_op(from.op);
  if (op == nullptr) return Verdict::no(concat("op ", from.op, " is not in op set ", QUERN_OPSET_VERSION, ", which this plugin has"));
  if (from.op_revision > 1) return Verdict::no(concat(op->name, ": revision ", from.op_revision, " is newer than this plugin's, 1"));
  if ((from.uses & ~QUERN_NODE_USES_ALL) != 0)
    return Verdict::no(concat(op->name, " uses a feature this plugin does not know (bits ", from.uses & ~QUERN_NODE_USES_ALL, ")"));
  if ((from.uses & QUERN_NODE_USES_BODY) != 0 && from.op != QUERN_OP_ADD_RMS_NORM)
    return Verdict::no(concat(op->name, " is a composite; this plugin runs the nodes of its body"));
  if ((from.uses & QUERN_NODE_USES_COMMUNICATOR) != 0) return Verdict::no("this plugin has no collectives");
  if ((from.uses & QUERN_NODE_USES_PRECISION) != 0 && from.accumulate != QUERN_F32)
    return Verdict::no(concat(op->name, ": accumulation in ", dtype_name(from.accumulate), " is asked; this plugin accumulates in f32"));
  if ((from.uses & QUERN_NODE_USES_PRECISION) != 0 && (from.conversions & ~0xfu) != 0)
    return Verdict::no(concat(op->name, ": unknown conversion bits ", from.conversions));
  if ((from.uses & QUERN_NODE_USES_PRECISION) != 0) node.conversions = from.conversions;
  if ((from.uses & QUERN_NODE_USES_DETERMINISM) != 0) {
    if (from.determinism > QUERN_DETERMINISM_INVARIANT) return Verdict::no(concat(op->name, ": unknown determinism ", from.determinism));
    node.invariant = from.determinism == QUERN_DETERMINISM_INVARIANT;
  }
  std::vector<bool> inputs, outputs;
  for (const std::uint32_t id : node.inputs) inputs.push_back(id != QUERN_NONE);
  for (const std::uint32_t id : node.outputs) outputs.push_back(id != QUERN_NONE);
  if (Verdict v = check_arity(*op, inputs, outputs); !v) return v;
  std::vector<quern_attribute> sent;
  const List<quern_attribute> attributes(from.attributes, QUERN_MIN_SIZE_quern_attribute, "node.attributes");
  for (std::uint64_t i = 0; i < attributes.size(); ++i) sent.push_back(attributes[i]);
  if (Verdict v = resolve_attributes(*op, sent, node.attributes); !v) return v;
  for (const auto* ids : {&node.inputs, &node.outputs})
    for (const std::uint32_t id : *ids)
      if (id != QUERN_NONE && !graph.values[id].verdict) return graph.values[id].verdict;
  if (node.predicate != QUERN_NONE) {
    const Value& predicate = graph.values[node.predicate];
    if (!predicate.verdict) return predicate.verdict;
    if ((predicate.view.dtype != QUERN_I32 && predicate.view.dtype != QUERN_U32) || predicate.view.rank > 1)
      return Verdict::invalid(concat(op->name, ": its predicate is ", describe(predicate.view),
                                     "; it is a scalar or a vector of i32 or u32"));
    node.row_predicate = predicate.view.ranged != 0 || element_count(predicate.view) != 1;
    if (node.row_predicate) {
      const TensorView& first = graph.values[node.inputs.empty() || node.inputs[0] == QUERN_NONE ? node.outputs[0] : node.inputs[0]].view;
      if (first.rank == 0 || first.dims[0] != predicate.view.dims[0])
        return Verdict::invalid(concat(op->name, ": its predicate is ", describe(predicate.view), " but the first input is ",
                                       describe(first)));
    }
  }
  return Verdict::yes();
}

Node read_node(const List<quern_node>& list, std::uint64_t id, const Graph& graph) {
  const quern_node from = read_struct<quern_node>(list.address(id), QUERN_TYPE_NODE, QUERN_MIN_SIZE_quern_node, "node");
  Node node;
  node.op = from.op;
  node.name = read_string(from.name);
  node.inputs = read_ids(from.inputs, "input", id, graph.values.size());
  node.outputs = read_ids(from.outputs, "output", id, graph.values.size());
  if ((from.uses & QUERN_NODE_USES_PREDICATE) != 0) {
    node.predicate = from.predicate;
    if (node.predicate != QUERN_NONE && node.predicate >= graph.values.size())
      throw Error(QUERN_INVALID_ARGUMENT, concat("node ", id, ": its predicate is value ", node.predicate, " of ", graph.values.size()),
                  static_cast<std::uint32_t>(id));
  }
  node.verdict = judge_node(from, graph, node);
  return node;
}

}  // namespace

std::uint64_t view_bytes(const TensorView& view) noexcept {
  if (view.layout != nullptr)
    return static_cast<std::uint64_t>(view.dim_from_end(2) * packed_bytes(*view.layout, view.dim_from_end(1), view.dim_from_end(0)));
  const std::int64_t elements = unit_elements(view.dtype);
  std::int64_t last = 0;
  for (std::uint32_t d = 0; d < view.rank; ++d) {
    if (view.dims[d] == 0) return 0;
    const std::int64_t units = d + 1 == view.rank ? (view.dims[d] + elements - 1) / elements : view.dims[d];
    last += (units - 1) * view.strides[d];
  }
  return static_cast<std::uint64_t>(last + unit_bytes(view.dtype));
}

Graph read_graph(const quern_graph* host_graph) {
  const quern_graph graph = read_struct<quern_graph>(host_graph, QUERN_TYPE_GRAPH, QUERN_MIN_SIZE_quern_graph, "graph");
  Graph out;
  const List<quern_value> values(graph.values, QUERN_MIN_SIZE_quern_value, "graph.values");
  const List<quern_node> nodes(graph.nodes, QUERN_MIN_SIZE_quern_node, "graph.nodes");
  out.values.reserve(values.size());
  out.nodes.reserve(nodes.size());
  for (std::uint64_t id = 0; id < values.size(); ++id) out.values.push_back(read_value(values, id, graph.symbols.count));
  resolve_aliases(out.values);
  read_symbols(graph, out);
  for (std::uint64_t id = 0; id < nodes.size(); ++id) out.nodes.push_back(read_node(nodes, id, out));
  return out;
}

OpCall describe_call(const Graph& graph, const Node& node, std::uint32_t thread_count, bool deterministic,
                     std::vector<TensorView>& storage) {
  storage.clear();
  storage.reserve(node.inputs.size() + node.outputs.size());
  for (const auto* ids : {&node.inputs, &node.outputs})
    for (const std::uint32_t id : *ids) storage.push_back(id == QUERN_NONE ? TensorView{} : graph.values[id].view);
  OpCall call;
  call.op = node.op;
  call.thread_count = thread_count;
  call.exact_order = deterministic || node.invariant;
  call.conversions = node.conversions;
  call.inputs = {storage.data(), node.inputs.size()};
  call.outputs = {storage.data() + node.inputs.size(), node.outputs.size()};
  call.attributes = node.attributes;
  if (node.row_predicate) call.predicate = graph.values[node.predicate].view;
  return call;
}

}  // namespace quern::cpu
