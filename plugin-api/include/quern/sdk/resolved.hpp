// A host's graph as a device plugin keeps it: the checked copy, with views followed to their memory, layouts read, and an answer a node.
//
// Part of the plugin SDK (include quern/quern_device_plugin.hpp); C++17, not part of the ABI.
#ifndef QUERN_SDK_RESOLVED_HPP
#define QUERN_SDK_RESOLVED_HPP

#include "quern/sdk/calls.hpp"
#include "quern/sdk/form_rules.hpp"
#include "quern/sdk/overlap.hpp"
#include "quern/sdk/refusals.hpp"

#include <memory>

namespace quern {
namespace sdk {

class ResolvedGraph;
struct ResolvedNode;

/// How a plugin answers for a node whose form is right.
struct Choice {
  const char* kernel = "";                ///< that runs it
  std::string refusal;                    ///< why none does; empty: `kernel` does
  quern_status code = QUERN_UNSUPPORTED;  ///< of the refusal
  std::string reason;                     ///< why not a faster one; empty: it is the first choice
  const void* row = nullptr;              ///< the plugin's own
};

/// What a plugin adds to the checks of resolved graphs.
class Offers {
 public:
  virtual ~Offers() = default;
  virtual const OpOffer* find(std::uint32_t op) const = 0;
  /// Which kernel runs a node. As it is here: the one of the op's row, where refuse() has no reason. A plugin with several kernels an op
  /// has its own choice; then its rows need no `kernel` and no `refuse`.
  virtual Choice choose(const ResolvedGraph& graph, const ResolvedNode& node, const Node& source) const;
  /// Bytes of a constant matrix, or of the matrices of experts, packed under a layout key. 0: the key is none of this plugin's for it.
  virtual std::uint64_t layout_bytes(std::string_view, const quern_value&) const { return 0; }
  /// Why a call cannot run on this device (empty: it can); the offer's own answer unless a device has more to ask.
  virtual std::string refuse(const OpOffer& offer, const Call& call) const {
    return offer.refuse == nullptr ? std::string() : offer.refuse(call);
  }
  /// Whether the kernels of an op may write over the input that writes_over() names.
  virtual bool writes_over_input(std::uint32_t) const { return false; }
};

struct ResolvedValue {
  Tensor tensor;             ///< data 0; dims at their largest
  std::uint32_t root = 0;    ///< the value whose memory this is
  std::uint64_t offset = 0;  ///< bytes from the start of the root
  std::uint64_t bytes = 0;   ///< at the largest dims
  std::string layout;        ///< the key of a layout of this plugin that it lies in; empty: in rows
  std::string refusal;       ///< why nodes that touch it cannot run here
};

struct ResolvedNode : Numerics {
  std::uint32_t op = 0;
  std::vector<std::uint32_t> inputs, outputs;
  std::unique_ptr<Attributes> attributes;
  std::uint32_t predicate = QUERN_NONE;
  bool row_predicate = false;
  const OpOffer* offer = nullptr;
  bool malformed = false;  ///< refused before the plugin was asked
  Choice choice;           ///< without its refusal, which moves to:
  std::string refusal;     ///< of the form, or of the choice
  std::string name;
};

class ResolvedGraph {
 public:
  /// Throws Failure for a malformed graph; what the plugin cannot run is in the nodes' refusals.
  ResolvedGraph(const quern_graph* graph, const Offers& offers) : source(graph) {
    const quern_graph given = read(graph);
    const List<quern_value> list(given.values, "values");
    for (std::uint32_t id = 0; id < source.values.size(); ++id) {
      values.push_back(read_value(list[id], id, offers));
      resolve_alias(id);
    }
    const List<quern_node> node_list(given.nodes, "nodes");
    for (std::size_t n = 0; n < source.nodes.size(); ++n) add_node(source.nodes[n], node_list[n], offers);
    check_written();
  }
  ResolvedGraph(const ResolvedGraph&) = delete;
  ResolvedGraph& operator=(const ResolvedGraph&) = delete;

  Graph source;
  std::vector<ResolvedValue> values;
  std::vector<ResolvedNode> nodes;

  bool internal(std::uint32_t root) const noexcept { return source.values[root].kind == QUERN_VALUE_INTERNAL; }

  /// The dims of a value under the given extents of its symbols.
  void shape(std::uint32_t value, const std::vector<std::int64_t>& extents, Tensor& tensor) const noexcept {
    for (std::uint32_t d = 0; d < tensor.rank; ++d) tensor.dims[d] = source.extent(value, d, extents);
  }

  /// The call of a node with these tensors, one a value of the graph; `storage` holds copies of those that it has.
  template <class TensorOf>
  Call call(const ResolvedNode& node, std::vector<Tensor>& storage, const TensorOf& tensor_of) const {
    storage.clear();
    for (const auto* ids : {&node.inputs, &node.outputs})
      for (const std::uint32_t v : *ids) storage.push_back(v == QUERN_NONE ? Tensor{} : tensor_of(v));
    Call c;
    c.op = node.op;
    c.inputs = {storage.data(), node.inputs.size()};
    c.outputs = {storage.data() + node.inputs.size(), node.outputs.size()};
    c.attributes = node.attributes.get();
    if (node.row_predicate) c.predicate = tensor_of(node.predicate);
    c.conversions = node.conversions;
    c.invariant = node.invariant;
    return c;
  }
  Call describe(const ResolvedNode& node, std::vector<Tensor>& storage) const {
    return call(node, storage, [this](std::uint32_t v) -> const Tensor& { return values[v].tensor; });
  }

  /// Fills `refused` and throws Failure(UNSUPPORTED) naming the first node that the plugin cannot run.
  void require_runnable(std::vector<std::uint32_t>& refused) const {
    for (std::uint32_t n = 0; n < nodes.size(); ++n)
      if (!nodes[n].refusal.empty()) refused.push_back(n);
    if (refused.empty()) return;
    const ResolvedNode& node = nodes[refused.front()];
    Failure failure(node.choice.code, concat("node ", refused.front(), node.name.empty() ? "" : " ", node.name, ": ", node.refusal));
    failure.node = refused.front();
    throw failure;
  }

 private:
  [[noreturn]] static void refuse(std::string text, std::uint32_t rule) { throw Failure(QUERN_INVALID_ARGUMENT, std::move(text), rule); }

  ResolvedValue read_value(const quern_value& given, std::uint32_t id, const Offers& offers) const {
    const quern_value& v = source.values[id];
    ResolvedValue value;
    value.root = id;
    Tensor& t = value.tensor;
    t.name = source.value_names[id].c_str();
    value.refusal = unknown_bit("a value", v.uses, QUERN_VALUE_USES_ALL);
    if (!value.refusal.empty()) return value;
    if ((v.uses & QUERN_VALUE_USES_INDIRECT) != 0) value.refusal = refusal::indirect_spans();
    if ((v.uses & QUERN_VALUE_USES_SNAPSHOT) != 0) value.refusal = refusal::snapshots();
    ElementSize size{};
    try {
      size = element_size(v.dtype);
    } catch (const Failure& failure) {
      value.refusal = failure.text;
      return value;
    }
    for (const quern_format& format : quern_formats)
      if (format.id == v.dtype && ((v.uses & QUERN_VALUE_USES_FORMAT) == 0 || v.format_hash != format.hash))
        value.refusal = concat("'", t.name, "': the descriptor of its format has another hash than this plugin's");
    const std::int64_t unit = static_cast<std::int64_t>(size.elements);
    if (unit > 1 && (v.rank == 0 || v.dims[v.rank - 1] % unit != 0))
      refuse(concat("value ", id, " '", t.name, "' has rows of ", v.rank == 0 ? 1 : v.dims[v.rank - 1], " elements in blocks of ", unit),
             20);
    t.dtype = v.dtype;
    t.rank = v.rank;
    const bool strided = (v.uses & QUERN_VALUE_USES_STRIDES) != 0;
    std::int64_t packed = static_cast<std::int64_t>(size.bytes);
    for (std::uint32_t d = v.rank; d-- > 0;) {
      t.dims[d] = v.dims[d];
      if (v.symbols[d] != 0) t.ranged |= 1u << d;
      t.strides[d] = strided ? v.strides[d] : packed;
      packed *= std::max<std::int64_t>(1, d + 1 == v.rank ? v.dims[d] / unit : v.dims[d]);
    }
    if (unit > 1 && (t.ranged >> (v.rank - 1) & 1u) != 0)
      value.refusal = concat("'", t.name, "': the rows of a block format have one length");
    value.bytes = source.bytes(id, source.widest());
    if ((v.uses & QUERN_VALUE_USES_LAYOUT) != 0) {
      const std::string_view key = view(given.layout);
      const bool plain = v.kind == QUERN_VALUE_CONSTANT && v.rank >= 2 && t.ranged == 0 && !strided &&
                         (v.uses & QUERN_VALUE_USES_ALIAS) == 0;
      value.bytes = plain ? offers.layout_bytes(key, v) : 0;
      t.packed_layout = value.bytes != 0;
      if (t.packed_layout) value.layout = std::string(key);
      if (!t.packed_layout)
        value.refusal = concat("'", t.name, "' is packed as '", std::string(key), "', which is no layout of this plugin for it");
    }
    return value;
  }

  void resolve_alias(std::uint32_t id) {
    const quern_value& v = source.values[id];
    if ((v.uses & QUERN_VALUE_USES_ALIAS) == 0) return;
    const ResolvedValue& of = values[v.alias_of];  // an earlier value, resolved by now
    ResolvedValue& value = values[id];
    value.root = of.root;
    value.offset = of.offset + v.alias_offset;
    const ResolvedValue& root = values[value.root];
    if (value.offset > root.bytes || value.bytes > root.bytes - value.offset)
      refuse(concat("value ", id, " covers bytes ", value.offset, " to ", value.offset + value.bytes, " of value ", value.root,
                    ", which has ", root.bytes),
             26);
    if (v.kind != QUERN_VALUE_INTERNAL && v.kind != source.values[value.root].kind)
      refuse(concat("value ", id, " is of kind ", v.kind, " but a view of value ", value.root, " of kind ", source.values[value.root].kind),
             26);
    if (!root.refusal.empty()) value.refusal = root.refusal;
    if (root.tensor.packed_layout) value.refusal = concat("'", value.tensor.name, "' is a view of a packed weight");
  }

  void add_node(const Node& from, const quern_node& given, const Offers& offers) {
    ResolvedNode node;
    node.op = from.fields.op;
    node.inputs = from.inputs;
    node.outputs = from.outputs;
    node.name = from.name;
    node.attributes = std::make_unique<Attributes>(given);
    const std::uint64_t uses = from.fields.uses;
    if ((uses & QUERN_NODE_USES_PRECISION) != 0) node.conversions = from.fields.conversions;
    node.invariant = (uses & QUERN_NODE_USES_DETERMINISM) != 0 && from.fields.determinism == QUERN_DETERMINISM_INVARIANT;
    if ((uses & QUERN_NODE_USES_PREDICATE) != 0) node.predicate = from.fields.predicate;
    node.offer = offers.find(node.op);
    node.refusal = judge(from, node, offers);
    node.malformed = !node.refusal.empty();
    if (!node.malformed) {
      node.choice = offers.choose(*this, node, from);
      node.refusal = std::move(node.choice.refusal);
    }
    nodes.push_back(std::move(node));
  }

  std::string judge(const Node& node, ResolvedNode& made, const Offers& offers) const {
    if (std::string text = refuse_unknown(source, node); !text.empty()) return text;
    const std::uint64_t uses = node.fields.uses;
    if ((uses & QUERN_NODE_USES_COMMUNICATOR) != 0) return refusal::collectives();
    if ((uses & QUERN_NODE_USES_BODY) != 0 && made.offer == nullptr) return refusal::composite();
    if ((uses & QUERN_NODE_USES_PRECISION) != 0 && node.fields.accumulate != QUERN_F32) return refusal::accumulate();
    if ((uses & QUERN_NODE_USES_PRECISION) != 0 && (node.fields.conversions & ~0xfu) != 0)
      return concat("conversion bits ", node.fields.conversions, " are newer than this plugin");
    if ((uses & QUERN_NODE_USES_DETERMINISM) != 0 && node.fields.determinism > QUERN_DETERMINISM_INVARIANT)
      return concat("determinism ", node.fields.determinism, " is newer than this plugin");
    if (made.offer == nullptr) return refusal::op(node.fields.op);
    for (const auto* list : {&made.inputs, &made.outputs})
      for (const std::uint32_t v : *list)
        if (v != QUERN_NONE && !values[v].refusal.empty()) return values[v].refusal;
    if (!made.attributes->problem().empty()) return made.attributes->problem();
    if (std::string text = judge_predicate(made); !text.empty()) return text;
    std::vector<Tensor> storage;
    if (FormProblem problem = form_problem(describe(made, storage)); !problem.text.empty()) {
      made.choice.code = problem.code;
      return problem.text;
    }
    return judge_overlap(source, values, made.op, made.inputs, made.outputs, offers.writes_over_input(made.op));
  }

  std::string judge_predicate(ResolvedNode& node) const {
    if (node.predicate == QUERN_NONE) return {};
    const ResolvedValue& value = values[node.predicate];
    if (!value.refusal.empty()) return value.refusal;
    const Tensor& p = value.tensor;
    if ((p.dtype != QUERN_I32 && p.dtype != QUERN_U32) || p.rank > 1 || !is_contiguous(p))
      return concat("its predicate is ", sdk::describe(p), "; it is a number or a packed vector of i32 or u32");
    node.row_predicate = p.ranged != 0 || p.elements() != 1;
    if (!node.row_predicate) return {};
    const std::uint32_t first = node.inputs.empty() || node.inputs[0] == QUERN_NONE ? node.outputs[0] : node.inputs[0];
    const Tensor& rows = values[first].tensor;
    if (rows.rank == 0 || rows.dims[0] != p.dims[0])
      return concat("its predicate is ", sdk::describe(p), " but the first input is ", sdk::describe(rows));
    return node.offer->row_predicate ? std::string() : std::string("this op takes a predicate of one number, not of one a row");
  }

  /// Internal values are written before they are read, outputs are written.
  void check_written() const {
    std::vector<bool> written(values.size(), false);
    const auto look = [&](std::uint32_t id, std::size_t n) {
      if (id == QUERN_NONE) return;
      const std::uint32_t root = values[id].root;
      if (internal(root) && !written[root]) refuse(concat("node ", n, " reads value ", id, " before any node writes it"), 26);
    };
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      for (const std::uint32_t id : nodes[n].inputs) look(id, n);
      look(nodes[n].predicate, n);
      for (const std::uint32_t id : nodes[n].outputs) {
        if (id == QUERN_NONE) continue;
        const std::uint32_t root = values[id].root, kind = source.values[root].kind;
        if (kind == QUERN_VALUE_CONSTANT || kind == QUERN_VALUE_INPUT)
          refuse(concat("node ", n, " writes value ", id, ", which is ", kind == QUERN_VALUE_INPUT ? "an input" : "a constant"), 26);
        written[root] = true;
      }
    }
    for (std::size_t id = 0; id < values.size(); ++id)
      if (source.values[id].kind == QUERN_VALUE_OUTPUT && values[id].root == id && !written[id])
        refuse(concat("value ", id, " is an output but no node writes it"), 26);
  }
};

inline Choice Offers::choose(const ResolvedGraph& graph, const ResolvedNode& node, const Node&) const {
  std::vector<Tensor> storage;
  Choice choice;
  choice.kernel = node.offer->kernel;
  choice.refusal = refuse(*node.offer, graph.describe(node, storage));
  return choice;
}

}  // namespace sdk
}  // namespace quern

#endif
