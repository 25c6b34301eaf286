// One node of the forward graph under differentiation: what an op's gradient reads, and what it gives.
//
// A gradient is a function void gradients::<op>(GradientCall&), in the op's file in src/ops/. It adds nodes to graph(), and calls
// give() or has_none() for each input that wants() a gradient. What it leaves out is refused by differentiate().
#pragma once

#include "memory.hpp"
#include "quern/graph/differentiate.hpp"
#include "quern/graph/op_info.hpp"

#include <cstdint>
#include <vector>

namespace quern::graph {

class Contributions;
class SavedValues;

class GradientCall {
 public:
  /// dy has the gradient of each output, no_value where there is none; wanted says it of each input.
  GradientCall(Graph& graph, std::uint32_t index, SavedValues& saved, Contributions& contributions, std::vector<ValueId> dy,
               std::vector<bool> wanted, const DifferentiateOptions& options);

  Graph& graph() { return graph_; }
  const Node& node() const { return node_; }
  std::int64_t integer(std::uint32_t key) const { return integer_attribute(node_, key); }
  double number(std::uint32_t key) const { return number_attribute(node_, key); }

  std::size_t count() const { return node_.inputs.size(); }
  bool has(std::size_t i) const { return i < node_.inputs.size() && node_.inputs[i] != no_value; }
  bool wants(std::size_t i) const { return i < wanted_.size() && wanted_[i]; }
  bool given(std::size_t i) const { return given_[i]; }
  const DifferentiateOptions& options() const { return options_; }
  Shape shape(std::size_t i) const { return graph_.value(node_.inputs[i]).shape; }
  quern_dtype dtype(std::size_t i) const { return graph_.value(node_.inputs[i]).dtype; }

  /// Input i as the node read it, output i as it wrote it: kept, or made again here. no_value for an absent optional input.
  ValueId in(std::size_t i);
  ValueId out(std::size_t i);
  /// Whether this node alone reads input i, which backward reads as `value`: all of an internal value whose producer does not need it.
  bool may_overwrite(std::size_t i, ValueId value) const;
  /// The gradient of output i, in its shape and dtype, contiguous; no_value where nothing that counts reads it.
  ValueId dy(std::size_t i = 0) const { return dy_[i]; }

  /// Where the gradient of input i is added by the op's `accumulate`; no_value: make a new value.
  ValueId into(std::size_t i);
  /// The dtype in which the gradient of input i is wanted, where the op leaves a choice: f32, or that of the input.
  quern_dtype sum_dtype(std::size_t i);
  /// What other uses of input i have given so far, to which a product may add: see Contributions.
  ValueId partial(std::size_t i);
  /// partial(i) with the gradient of input i added, in sum_dtype(i).
  void give_sum(std::size_t i, ValueId sum);
  /// The gradient of input i: of its shape, in any float dtype, or the value of into(i).
  void give(std::size_t i, ValueId gradient);
  /// The derivative by input i is 0 everywhere: the output does not depend on it, or steps.
  void has_none(std::size_t i) { given_[i] = true; }
  /// Throws Error(QUERN_UNSUPPORTED) naming op and node.
  template <typename... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    throw Error(QUERN_UNSUPPORTED, concat("differentiate: ", describe_node(node_), ": ", parts...));
  }

  /// The options of a backward node.
  NodeOptions how(quern_dtype dtype = QUERN_DTYPE_NONE) const;
  /// Adds a node of this op's backward op.
  std::vector<ValueId> add(std::uint32_t op, std::vector<ValueId> inputs, Attributes attributes);
  std::vector<ValueId> add(std::uint32_t op, std::vector<ValueId> inputs, Attributes attributes, NodeOptions options);
  ValueId as(ValueId value, quern_dtype dtype);
  ValueId reshaped(ValueId value, const Shape& shape);
  /// The gradient of input i, which broadcasts to what `gradient` is of: its sums, in sum_dtype(i).
  ValueId summed(ValueId gradient, std::size_t i);

 private:
  Graph& graph_;
  std::uint32_t index_;
  Node node_;  // a copy: adding nodes moves those of the graph
  SavedValues& saved_;
  Contributions& contributions_;
  std::vector<ValueId> dy_;
  std::vector<bool> wanted_;
  std::vector<bool> given_;
  const DifferentiateOptions& options_;
};

using Gradient = void (*)(GradientCall&);
/// The gradient of an op of ops.def; null where its row has none.
Gradient find_gradient(std::uint32_t op);

/// One declaration an op; those whose row names a gradient are defined in src/ops/.
namespace gradients {
#define QUERN_OP(id, NAME, name, group, inputs, outputs, attributes, gradient) void name(GradientCall& call);
#include "quern/ops.def"
#undef QUERN_OP

/// dx of y = f(x) is one node (x, dy) -> dx with the same attributes.
void unary(GradientCall& call, std::uint32_t backward_op);
}  // namespace gradients

}  // namespace quern::graph
