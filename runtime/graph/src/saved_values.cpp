// Checkpointing: which values live until backward, and the clones of the producers of the others.
#include "saved_values.hpp"

#include "quern/graph/op_info.hpp"

#include <algorithm>
#include <set>

namespace quern::graph {
namespace {

/// Whether `selective` makes the results of an op again: one pass over its operands, which costs less than keeping it.
bool is_cheap(std::uint32_t op) {
  if (op == QUERN_OP_DROPOUT) return true;
  const std::string& group = find_op(op)->group;
  return group == "elementwise" || group == "activation" || group == "norm" || group == "rope" || group == "copy";
}

}  // namespace

Writes::Writes(const Graph& graph) : graph_(graph) {}

std::uint32_t Writes::next(ValueId value, std::uint32_t from) {
  of_root_.resize(graph_.values().size());
  for (; seen_ < graph_.nodes().size(); ++seen_)
    for (const ValueId output : graph_.nodes()[seen_].outputs)
      if (output != no_value) of_root_[graph_.root(output)].push_back({seen_, memory_range(graph_, output)});
  const std::vector<Write>& here = of_root_[graph_.root(value)];
  const Range range = memory_range(graph_, value);
  auto write = std::ranges::lower_bound(here, from, {}, &Write::node);
  for (; write != here.end(); ++write)
    if (write->range.overlaps(range)) return write->node;
  return static_cast<std::uint32_t>(graph_.nodes().size());
}

SavedValues::SavedValues(Graph& graph, const DifferentiateOptions& options, std::uint32_t last)
    : graph_(graph), segments_(options.segments), writes_(graph) {
  kept_.assign(graph.values().size(), true);
  producer_.assign(graph.values().size(), none);
  if (options.checkpointing != Checkpointing::none) choose_kept(options, last);
}

std::uint32_t SavedValues::segment(std::uint32_t node) const {
  return static_cast<std::uint32_t>(std::ranges::upper_bound(segments_, node) - segments_.begin());
}

void SavedValues::choose_kept(const DifferentiateOptions& options, std::uint32_t last) {
  const auto& nodes = graph_.nodes();
  for (std::uint32_t n = 0; n < nodes.size(); ++n) {
    const bool wanted = segment(n) != segment(last) && (options.checkpointing == Checkpointing::full || is_cheap(nodes[n].op));
    if (!wanted || !can_be_made_again(nodes[n], n)) continue;
    for (const ValueId output : nodes[n].outputs) {
      if (output == no_value) continue;
      producer_[output] = n;
      kept_[output] = false;
    }
  }
  // What another segment reads is kept for it.
  for (std::uint32_t n = 0; n < nodes.size(); ++n)
    for (const ValueId input : nodes[n].inputs) {
      if (input == no_value) continue;
      const ValueId root = graph_.root(input);
      if (!kept_[root] && segment(producer_[root]) != segment(n)) kept_[root] = true;
    }
}

bool SavedValues::can_be_made_again(const Node& node, std::uint32_t index) {
  const auto end = static_cast<std::uint32_t>(graph_.nodes().size());
  if (node.predicate != no_value) return false;
  for (const ValueId output : node.outputs)
    if (output != no_value && (graph_.root(output) != output || graph_.value(output).kind != QUERN_VALUE_INTERNAL)) return false;
  return std::ranges::all_of(node.inputs, [&](ValueId input) { return input == no_value || writes_.next(input, index) == end; });
}

ValueId SavedValues::read(std::uint32_t node, ValueId value, std::uint32_t from) {
  if (kept_[graph_.root(value)]) {
    check_unchanged(node, value, from);
    return value;
  }
  if (segment_ != segment(node)) {
    again_.clear();
    segment_ = segment(node);
  }
  make_again(graph_.root(value));
  return again(value);
}

void SavedValues::check_unchanged(std::uint32_t reader, ValueId value, std::uint32_t from) {
  const std::uint32_t write = writes_.next(value, from);
  if (write == graph_.nodes().size()) return;
  throw Error(QUERN_INVALID_ARGUMENT, concat("differentiate: the gradient of ", describe_node(graph_.nodes()[reader]), " reads '",
                                             graph_.value(value).name, "' ", graph_.describe(value), ", which ",
                                             describe_node(graph_.nodes()[write]), " overwrites before that; write to another value"));
}

void SavedValues::make_again(ValueId root) {
  std::vector<ValueId> open{root};
  std::vector<std::uint32_t> needed;
  std::set<ValueId> found;
  while (!open.empty()) {
    const ValueId one = open.back();
    open.pop_back();
    if (kept_[one] || again_.contains(one) || !found.insert(one).second) continue;
    needed.push_back(producer_[one]);
    for (const ValueId input : graph_.nodes()[producer_[one]].inputs)
      if (input != no_value) open.push_back(graph_.root(input));
  }
  std::ranges::sort(needed);
  const auto repeated = std::ranges::unique(needed);
  needed.erase(repeated.begin(), repeated.end());
  for (const std::uint32_t n : needed) {
    const Node node = graph_.nodes()[n];
    std::vector<ValueId> inputs = node.inputs;
    for (ValueId& input : inputs) {
      if (input == no_value) continue;
      if (kept_[graph_.root(input)]) check_unchanged(n, input, n);
      else input = again(input);
    }
    NodeOptions options;
    if (!node.name.empty()) options.name = node.name + ".again";
    options.conversions = node.conversions;
    options.determinism = node.determinism;
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      if (node.outputs[i] == no_value && i < 64) options.skip_outputs |= std::uint64_t{1} << i;
    const auto first = std::ranges::find_if(node.outputs, [](ValueId id) { return id != no_value; });
    options.output_dtype = graph_.value(*first).dtype;
    options.output_shape = graph_.value(*first).shape;
    const std::vector<ValueId> outputs = graph_.add_node(node.op, inputs, node.attributes, options);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (node.outputs[i] != no_value) again_[node.outputs[i]] = outputs[i];
  }
}

ValueId SavedValues::again(ValueId value) {
  const auto known = again_.find(value);
  if (known != again_.end()) return known->second;
  const Value view = graph_.value(value);
  const ValueId made = graph_.view(again_.at(view.alias_of), view.shape, graph_.strides(value), view.alias_offset);
  again_[value] = made;
  return made;
}

}  // namespace quern::graph
