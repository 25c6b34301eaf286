// Adds a node: inputs and attributes against ops.def, shapes by the op's rule, writes against the rules of SSA.
#include "memory.hpp"
#include "op_call.hpp"

#include <algorithm>
#include <cmath>

namespace quern::graph {
namespace {

/// Throws the Error of this node.
class Refusal {
 public:
  Refusal(const OpInfo& op, const std::string& node) : op_(op), node_(node) {}
  /// "rms_norm 'blk.3.attn_norm'".
  std::string where() const { return node_.empty() ? op_.name : concat(op_.name, " '", node_, "'"); }
  template <typename... Parts>
  [[noreturn]] void operator()(const Parts&... parts) const {
    throw Error(QUERN_INVALID_ARGUMENT, concat(where(), ": ", parts...));
  }

 private:
  const OpInfo& op_;
  const std::string& node_;
};

/// Fills up absent optional inputs and refuses a wrong number of them.
void check_inputs(const OpInfo& op, const Graph& graph, std::vector<ValueId>& inputs, const Refusal& refuse) {
  const bool variadic = op.inputs.size() == 1 && op.inputs[0].variadic;
  if (variadic && inputs.empty()) refuse("needs at least one input ", op.inputs[0].name);
  if (!variadic) {
    if (inputs.size() > op.inputs.size()) refuse("has ", inputs.size(), " inputs; it takes at most ", op.inputs.size());
    inputs.resize(op.inputs.size(), no_value);
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const OpSlot& slot = op.inputs[variadic ? 0 : i];
    if (inputs[i] == no_value && !slot.optional) refuse("needs its input ", slot.name);
    if (inputs[i] != no_value && inputs[i] >= graph.values().size())
      refuse("its input ", slot.name, " is value ", inputs[i], ", which is not in graph '", graph.name(), "'");
  }
}

/// The attributes to store: known keys, each of its type, those equal to the default left out.
Attributes normalise(const OpInfo& op, const Attributes& given, const Refusal& refuse) {
  Attributes stored;
  for (const Attribute& attribute : given.all()) {
    const OpAttribute* formal = op.attribute(attribute.key);
    if (!formal) refuse("has no attribute ", attribute_name(attribute.key));
    if (formal->type == QUERN_ATTR_I64) {
      if (attribute.type != QUERN_ATTR_I64) refuse("its attribute ", formal->name, " is ", attribute.f, "; it is an integer");
      if (formal->required || attribute.i != formal->integer) stored.set(attribute.key, attribute.i);
    } else {
      const double number = attribute.type == QUERN_ATTR_F64 ? attribute.f : static_cast<double>(attribute.i);
      if (std::isnan(number) && attribute.key != QUERN_KEY_VALUE) refuse("its attribute ", formal->name, " is not a number");
      const bool is_default = number == formal->number && std::signbit(number) == std::signbit(formal->number);
      if (formal->required || !is_default) stored.set(attribute.key, number);
    }
  }
  for (const OpAttribute& formal : op.attributes)
    if (formal.required && !stored.find(formal.key)) refuse("needs the attribute ", formal.name);
  return stored;
}

/// The one input of an op outside the groups below that its output may lie over.
bool writes_over(const OpInfo& op, std::size_t input) {
  return op.id == QUERN_OP_MATMUL ? input == 3 : op.id == QUERN_OP_CROSS_ENTROPY_BACKWARD && input == 0;
}

bool in_place_allowed(const OpInfo& op, std::size_t input) {
  return writes_over(op, input) || op.group == "elementwise" || op.group == "activation" || op.group == "norm" || op.group == "rope";
}

/// An op that names one of its inputs as its output works on that value and no other.
bool names_as_output(const OpInfo& op, std::size_t input, std::size_t output) {
  const std::string& in = op.inputs[std::min(input, op.inputs.size() - 1)].name;
  const std::string& out = op.outputs[output].name;
  return in == out || in == out + "_in";
}

void check_in_place(const OpInfo& op, const Graph& graph, const std::vector<ValueId>& inputs, std::size_t output, ValueId target,
                    const Refusal& refuse) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == no_value || !overlap(graph, inputs[i], target)) continue;
    if (names_as_output(op, i, output)) continue;
    if (in_place_allowed(op, i) && same_memory(graph, inputs[i], target)) continue;
    refuse("its output ", op.outputs[output].name, " '", graph.value(target).name, "' shares memory with its input '",
           graph.value(inputs[i]).name, "' ", graph.describe(inputs[i]), "; ",
           in_place_allowed(op, i) ? "in place needs the same shape and strides" : "this op cannot work in place");
  }
}

/// An op that writes over its input may do so with a value that nodes make, by a view of it.
bool writes_over_internal(const OpInfo& op, const Graph& graph, const std::vector<ValueId>& inputs, ValueId target) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i] != no_value && writes_over(op, i) && same_memory(graph, inputs[i], target))
      return graph.value(graph.root(target)).kind == QUERN_VALUE_INTERNAL;
  return false;
}

void check_predicate(const Graph& graph, const std::vector<ValueId>& inputs, const Node& node, const Refusal& refuse) {
  if (node.predicate == no_value) return;
  if (node.predicate >= graph.values().size()) refuse("its predicate is value ", node.predicate, ", which is not there");
  const Value& predicate = graph.value(node.predicate);
  const bool integer = predicate.dtype == QUERN_I32 || predicate.dtype == QUERN_U32;
  bool shaped = predicate.shape == Shape{1};
  if (predicate.shape.size() == 1 && !inputs.empty() && inputs[0] != no_value && !graph.value(inputs[0]).shape.empty())
    shaped |= predicate.shape[0] == graph.value(inputs[0]).shape[0];
  if (!integer || !shaped)
    refuse("its predicate '", predicate.name, "' is ", graph.describe(node.predicate),
           "; it must be i32 or u32, [1] or one a row of the first input");
  for (const ValueId output : node.outputs)
    if (output != no_value && graph.value(graph.root(output)).kind == QUERN_VALUE_INTERNAL)
      refuse("has a predicate, so it may write nothing: its output '", graph.value(output).name,
             "' must be state or an output of the graph");
}

}  // namespace

std::vector<ValueId> Graph::add_node(std::uint32_t op_id, std::vector<ValueId> inputs, Attributes attributes, NodeOptions options) {
  const OpInfo* op = find_op(op_id);
  if (!op) throw Error(QUERN_INVALID_ARGUMENT, concat(op_name(op_id), " is not an op of this version"));
  const Refusal refuse(*op, options.name);

  check_inputs(*op, *this, inputs, refuse);
  for (const ValueId input : inputs)
    if (input != no_value && values_[root(input)].kind == QUERN_VALUE_INTERNAL && written_[root(input)] == not_written)
      refuse("reads '", values_[input].name, "', which no earlier node writes");
  const Attributes stored = normalise(*op, attributes, refuse);
  if (options.determinism > QUERN_DETERMINISM_INVARIANT) refuse("determinism ", options.determinism, " is not known");
  constexpr std::uint32_t conversions = QUERN_CONVERT_TF32 | QUERN_CONVERT_BF16 | QUERN_CONVERT_F16 | QUERN_CONVERT_INT8;
  if (options.conversions & ~conversions) refuse("conversions ", options.conversions, " are not known");
  if (options.outputs.size() > op->outputs.size()) refuse("is given ", options.outputs.size(), " outputs; it has ", op->outputs.size());
  for (const ValueId output : options.outputs)
    if (output != no_value && output >= values_.size()) refuse("is given the output ", output, ", which is not in graph '", name_, "'");
  for (std::size_t i = 0; i < 64; ++i)
    if ((options.skip_outputs >> i & 1u) && (i >= op->outputs.size() || !op->outputs[i].optional))
      refuse("output ", i, " is to be skipped, but it is not an optional output");

  OpCall call(*this, *op, inputs, stored, options);
  find_rule(op_id)(call);

  Node node{.op = op_id,
            .op_revision = 1,
            .inputs = inputs,
            .outputs = {},
            .attributes = stored,
            .predicate = options.predicate,
            .conversions = options.conversions,
            .determinism = options.determinism,
            .name = options.name};

  // Everything is checked before anything is added, so that a refused node leaves the graph as it was.
  std::vector<Value> fresh;
  for (std::size_t i = 0; i < op->outputs.size(); ++i) {
    const auto& stated = call.outputs()[i];
    const ValueId target = call.given_id(i);
    if (!stated || !call.wanted(i)) {
      if (target != no_value) refuse("is given a value for its output ", op->outputs[i].name, ", which it does not make here");
      node.outputs.push_back(no_value);
      continue;
    }
    if (target == no_value) {
      std::string name = options.name.empty() ? concat(op->name, ".", nodes_.size()) : options.name;
      if (op->outputs.size() > 1) name += "." + op->outputs[i].name;
      check_shape([&] { return concat(refuse.where(), ": its output ", op->outputs[i].name); }, stated->dtype, stated->shape);
      node.outputs.push_back(static_cast<ValueId>(values_.size() + fresh.size()));
      fresh.push_back({.name = std::move(name), .kind = QUERN_VALUE_INTERNAL, .dtype = stated->dtype, .shape = stated->shape});
      continue;
    }
    const Value& value = values_[target];
    if (value.dtype != stated->dtype || value.shape != stated->shape)
      refuse("its output ", op->outputs[i].name, " is ", dtype_name(stated->dtype), " ", describe(stated->shape), " but '", value.name,
             "' is ", describe(target));
    const std::uint32_t kind = values_[root(target)].kind;
    if (kind == QUERN_VALUE_CONSTANT || kind == QUERN_VALUE_INPUT)
      refuse("writes '", value.name, "', which is ", kind == QUERN_VALUE_INPUT ? "an input" : "a constant");
    if (kind != QUERN_VALUE_STATE &&
        (written_[target] != not_written || (written_[root(target)] == in_full && !writes_over_internal(*op, *this, inputs, target))))
      refuse("writes '", value.name, "', which an earlier node has written; only state is written twice");
    for (const ValueId other : node.outputs)
      if (other != no_value && other < values_.size() && overlap(*this, other, target)) refuse("writes '", value.name, "' as two outputs");
    check_in_place(*op, *this, inputs, i, target, refuse);
    node.outputs.push_back(target);
  }
  if (node.predicate != no_value && !fresh.empty())
    refuse("has a predicate, so it may write nothing: give its outputs as state or outputs of the graph");
  check_predicate(*this, inputs, node, refuse);

  for (Value& value : fresh) values_.push_back(std::move(value));
  written_.resize(values_.size());
  for (const ValueId output : node.outputs) {
    if (output == no_value) continue;
    if (written_[root(output)] == not_written) written_[root(output)] = in_part;
    written_[output] = in_full;
  }
  nodes_.push_back(std::move(node));
  return nodes_.back().outputs;
}

}  // namespace quern::graph
