// See graph.hpp.
#include "graph.hpp"

namespace quern::cuda {
namespace {

Value read_value(const sdk::Graph& source, const quern_value& given, std::uint32_t id) {
  const quern_value& v = source.values[id];
  Value value;
  value.root = id;
  value.tensor.name = source.value_names[id].c_str();
  if ((v.uses & ~QUERN_VALUE_USES_ALL) != 0) {
    value.refusal = sdk::unknown_bit("a value", v.uses, QUERN_VALUE_USES_ALL);
    return value;
  }
  if ((v.uses & QUERN_VALUE_USES_INDIRECT) != 0) value.refusal = sdk::refusal::indirect_spans();
  if ((v.uses & QUERN_VALUE_USES_SNAPSHOT) != 0) value.refusal = sdk::refusal::snapshots();
  sdk::ElementSize size{};
  try {
    size = sdk::element_size(v.dtype);
  } catch (const Failure& failure) {
    value.refusal = failure.text;
    return value;
  }
  for (const quern_format& format : quern_formats)
    if (format.id == v.dtype && ((v.uses & QUERN_VALUE_USES_FORMAT) == 0 || v.format_hash != format.hash))
      value.refusal = concat("'", value.tensor.name, "': the descriptor of its format has another hash than this plugin's");
  Tensor& t = value.tensor;
  t.dtype = v.dtype;
  t.rank = v.rank;
  const bool strided = (v.uses & QUERN_VALUE_USES_STRIDES) != 0;
  std::int64_t packed = static_cast<std::int64_t>(size.bytes);
  for (std::uint32_t d = v.rank; d-- > 0;) {
    t.dims[d] = v.dims[d];
    if (v.symbols[d] != 0) t.ranged |= 1u << d;
    t.strides[d] = strided ? v.strides[d] : packed;
    packed *= std::max<std::int64_t>(1, d + 1 == v.rank ? v.dims[d] / static_cast<std::int64_t>(size.elements) : v.dims[d]);
  }
  if (size.elements > 1 && (v.rank == 0 || v.dims[v.rank - 1] % static_cast<std::int64_t>(size.elements) != 0))
    refuse(concat("value ", id, " '", t.name, "' has rows of ", t.last(), " elements in blocks of ", size.elements), 20);
  value.bytes = source.bytes(id, source.widest());
  if ((v.uses & QUERN_VALUE_USES_LAYOUT) != 0) {
    const std::string_view key = sdk::view(given.layout);
    const WeightLayout layout = parse_layout(key);
    if (layout.dtype != v.dtype || v.kind != QUERN_VALUE_CONSTANT || v.rank != 2 || t.ranged != 0 ||
        strided || v.dims[0] != layout.rows || v.dims[1] != layout.k) {
      value.refusal = concat("'", t.name, "' is packed as '", std::string(key), "', which is no layout of this plugin for it");
    } else {
      t.planes = true;
      value.bytes = layout_bytes(layout);
    }
  }
  return value;
}

void resolve_alias(const sdk::Graph& source, std::vector<Value>& values, std::uint32_t id) {
  const quern_value& v = source.values[id];
  if ((v.uses & QUERN_VALUE_USES_ALIAS) == 0) return;
  const Value& of = values[v.alias_of];  // an earlier value, resolved by now
  Value& value = values[id];
  value.root = of.root;
  value.offset = of.offset + v.alias_offset;
  const Value& root = values[value.root];
  if (value.offset > root.bytes || value.bytes > root.bytes - value.offset)
    refuse(concat("value ", id, " covers bytes ", value.offset, " to ", value.offset + value.bytes,
                  " of value ", value.root, ", which has ", root.bytes),
           26);
  if (!root.refusal.empty()) value.refusal = root.refusal;
  if (root.tensor.planes) value.refusal = concat("'", value.tensor.name, "' is a view of a packed weight");
}

std::string check_predicate(const Tensor& predicate, const Call& call, bool a_row) {
  if ((predicate.dtype != QUERN_I32 && predicate.dtype != QUERN_U32) || predicate.rank > 1 || !predicate.contiguous())
    return concat("the predicate is ", describe(predicate), "; it is one number, or one a row, of i32 or u32");
  if (predicate.ranged == 0 && predicate.elements() == 1) return {};
  const Tensor& first = call.input(0);
  if (first.rank == 0 || first.dims[0] != predicate.dims[0])
    return concat("the predicate is ", describe(predicate), " and the first input ", describe(first));
  return a_row ? "" : "this op takes a predicate of one number here, not one a row";
}

std::string judge(const Graph& graph, const sdk::Node& node, const Node& made) {
  if (std::string text = sdk::refuse_unknown(graph.source, node); !text.empty()) return text;
  const std::uint64_t uses = node.fields.uses;
  if ((uses & QUERN_NODE_USES_COMMUNICATOR) != 0) return sdk::refusal::collectives();
  if ((uses & QUERN_NODE_USES_BODY) != 0 && made.implementation == nullptr) return sdk::refusal::composite();
  if ((uses & QUERN_NODE_USES_PRECISION) != 0 && node.fields.accumulate != QUERN_F32) return sdk::refusal::accumulate();
  constexpr std::uint32_t known = QUERN_CONVERT_TF32 | QUERN_CONVERT_BF16 | QUERN_CONVERT_F16 | QUERN_CONVERT_INT8;
  if ((uses & QUERN_NODE_USES_PRECISION) != 0 && (node.fields.conversions & ~known) != 0)
    return concat("conversion bits ", node.fields.conversions & ~known, " are newer than this plugin");
  if ((uses & QUERN_NODE_USES_DETERMINISM) != 0 && node.fields.determinism > QUERN_DETERMINISM_INVARIANT)
    return concat("determinism ", node.fields.determinism, " is newer than this plugin");
  if (made.implementation == nullptr) return sdk::refusal::op(node.fields.op);
  const std::vector<std::uint32_t> predicate{made.predicate};
  for (const auto* list : {&made.inputs, &made.outputs, &predicate})
    for (const std::uint32_t v : *list)
      if (v != QUERN_NONE && !graph.values[v].refusal.empty()) return graph.values[v].refusal;
  if (!made.attributes->problem().empty()) return made.attributes->problem();
  if (std::string text = sdk::judge_overlap(graph.source, graph.values, made.op, made.inputs, made.outputs); !text.empty()) return text;
  std::vector<Tensor> storage;
  const Call call = graph.describe(made, storage);
  if (made.predicate != QUERN_NONE)
    if (std::string text = check_predicate(graph.values[made.predicate].tensor, call, made.implementation->asks_predicate); !text.empty())
      return text;
  return made.implementation->refuse(call);
}

}  // namespace

Graph::Graph(const quern_graph* graph) : source(graph) {
  const quern_graph given = sdk::read(graph);
  const sdk::List<quern_value> list(given.values, "values");
  for (std::uint32_t id = 0; id < source.values.size(); ++id) {
    values.push_back(read_value(source, list[id], id));
    resolve_alias(source, values, id);
  }
  const sdk::List<quern_node> node_list(given.nodes, "nodes");
  for (std::size_t n = 0; n < source.nodes.size(); ++n) {
    const sdk::Node& from = source.nodes[n];
    Node node;
    node.op = from.fields.op;
    node.inputs = from.inputs;
    node.outputs = from.outputs;
    if ((from.fields.uses & QUERN_NODE_USES_PREDICATE) != 0) node.predicate = from.fields.predicate;
    node.name = from.name;
    node.attributes = std::make_unique<sdk::Attributes>(node_list[n]);
    const bool precision = (from.fields.uses & QUERN_NODE_USES_PRECISION) != 0;
    node.int8_allowed = precision && (from.fields.conversions & QUERN_CONVERT_INT8) != 0;
    node.bf16_allowed = precision && (from.fields.conversions & QUERN_CONVERT_BF16) != 0;
    node.f16_allowed = precision && (from.fields.conversions & QUERN_CONVERT_F16) != 0;
    node.invariant = (from.fields.uses & QUERN_NODE_USES_DETERMINISM) != 0 && from.fields.determinism == QUERN_DETERMINISM_INVARIANT;
    node.implementation = find_implementation(node.op);
    node.refusal = judge(*this, from, node);
    nodes.push_back(std::move(node));
  }
}

void Graph::shape(std::uint32_t value, const std::vector<std::int64_t>& extents, Tensor& tensor) const noexcept {
  for (std::uint32_t d = 0; d < tensor.rank; ++d) tensor.dims[d] = source.extent(value, d, extents);
}

Call Graph::describe(const Node& node, std::vector<Tensor>& storage) const {
  storage.clear();
  for (const auto* list : {&node.inputs, &node.outputs})
    for (const std::uint32_t v : *list) storage.push_back(v == QUERN_NONE ? Tensor{} : values[v].tensor);
  Call call;
  call.op = node.op;
  call.inputs = {storage.data(), node.inputs.size()};
  call.outputs = {storage.data() + node.inputs.size(), node.outputs.size()};
  call.attributes = node.attributes.get();
  call.int8_allowed = node.int8_allowed;
  call.bf16_allowed = node.bf16_allowed;
  call.f16_allowed = node.f16_allowed;
  call.invariant = node.invariant;
  if (node.predicate != QUERN_NONE) call.predicate = values[node.predicate].tensor;
  return call;
}

}  // namespace quern::cuda
