// What the gradients of ops have in common.
#include "gradient_call.hpp"

#include "contributions.hpp"
#include "quern/graph/ops/copy.hpp"
#include "saved_values.hpp"
#include "view_gradient.hpp"

namespace quern::graph {

GradientCall::GradientCall(Graph& graph, std::uint32_t index, SavedValues& saved, Contributions& contributions, std::vector<ValueId> dy,
                           std::vector<bool> wanted, const DifferentiateOptions& options)
    : graph_(graph),
      index_(index),
      node_(graph.nodes()[index]),
      saved_(saved),
      contributions_(contributions),
      dy_(std::move(dy)),
      wanted_(std::move(wanted)),
      given_(wanted_.size()),
      options_(options) {}

ValueId GradientCall::in(std::size_t i) { return has(i) ? saved_.input(index_, node_.inputs[i]) : no_value; }

ValueId GradientCall::out(std::size_t i) { return saved_.output(index_, node_.outputs[i]); }

bool GradientCall::may_overwrite(std::size_t i, ValueId value) const {
  const Value& given = graph_.value(value);
  if (graph_.root(value) != value || given.kind != QUERN_VALUE_INTERNAL || contributions_.is_wanted(node_.inputs[i])) return false;
  for (std::uint32_t n = 0; n < graph_.nodes().size(); ++n) {
    const Node& node = graph_.nodes()[n];
    for (const ValueId input : node.inputs)
      if (input != no_value && n != index_ && graph_.root(input) == value) return false;
    // The gradients of these read no result of theirs.
    for (const ValueId output : node.outputs)
      if (output != no_value && graph_.root(output) == value && node.op != QUERN_OP_MATMUL && node.op != QUERN_OP_CAST) return false;
  }
  return true;
}

ValueId GradientCall::into(std::size_t i) { return contributions_.into(node_.inputs[i]); }

quern_dtype GradientCall::sum_dtype(std::size_t i) { return contributions_.sum_dtype(node_.inputs[i]); }

void GradientCall::give(std::size_t i, ValueId gradient) {
  given_[i] = true;
  contributions_.give(node_.inputs[i], gradient);
}

ValueId GradientCall::partial(std::size_t i) { return contributions_.partial(node_.inputs[i]); }

void GradientCall::give_sum(std::size_t i, ValueId sum) {
  given_[i] = true;
  contributions_.give_sum(node_.inputs[i], sum);
}

NodeOptions GradientCall::how(quern_dtype dtype) const {
  NodeOptions options;
  if (!node_.name.empty()) options.name = node_.name + ".gradient";
  options.conversions = node_.conversions;
  options.determinism = node_.determinism;
  options.output_dtype = dtype;
  return options;
}

std::vector<ValueId> GradientCall::add(std::uint32_t op, std::vector<ValueId> inputs, Attributes attributes) {
  return add(op, std::move(inputs), std::move(attributes), how());
}

std::vector<ValueId> GradientCall::add(std::uint32_t op, std::vector<ValueId> inputs, Attributes attributes, NodeOptions options) {
  return graph_.add_node(op, std::move(inputs), std::move(attributes), std::move(options));
}

ValueId GradientCall::as(ValueId value, quern_dtype dtype) { return as_dtype(graph_, value, dtype, how()); }

ValueId GradientCall::reshaped(ValueId value, const Shape& shape) { return graph::reshaped(graph_, value, shape); }

ValueId GradientCall::summed(ValueId gradient, std::size_t i) {
  if (graph_.value(gradient).shape == shape(i)) return gradient;
  return ops::sum_to(graph_, as(gradient, sum_dtype(i)), shape(i), how());
}

void gradients::unary(GradientCall& call, std::uint32_t backward_op) {
  if (call.wants(0)) call.give(0, call.add(backward_op, {call.in(0), call.dy()}, call.node().attributes)[0]);
}

}  // namespace quern::graph
