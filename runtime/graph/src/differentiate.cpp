// The walk: which nodes lie between wanted values and seeds, and their gradients, last node first.
#include "quern/graph/differentiate.hpp"

#include "contributions.hpp"
#include "gradient_call.hpp"
#include "memory.hpp"
#include "saved_values.hpp"

#include <algorithm>

namespace quern::graph {
namespace {

template <typename... Parts>
[[noreturn]] void refuse_gradient(const Parts&... parts) {
  throw Error(QUERN_INVALID_ARGUMENT, concat("differentiate: ", parts...));
}

/// A set of pieces of memory.
class Stretches {
 public:
  explicit Stretches(const Graph& graph) : graph_(graph), of_root_(graph.values().size()) {}
  void add(ValueId value) {
    const Range range = memory_range(graph_, value);
    std::vector<Range>& here = of_root_[graph_.root(value)];
    if (std::ranges::find(here, range) == here.end()) here.push_back(range);
  }
  bool touch(ValueId value) const {
    const std::vector<Range>& here = of_root_[graph_.root(value)];
    if (here.empty()) return false;
    const Range range = memory_range(graph_, value);
    return std::ranges::any_of(here, [&](const Range& one) { return one.overlaps(range); });
  }

 private:
  const Graph& graph_;
  std::vector<std::vector<Range>> of_root_;
};

class Walk {
 public:
  Walk(Graph& graph, const std::vector<GradientSeed>& seeds, const std::vector<GradientWanted>& wanted, const DifferentiateOptions& options)
      : graph_(graph), seeds_(seeds), wanted_(wanted), options_(options) {}

  std::vector<ValueId> run() {
    check_arguments();
    find_varied();
    find_active();
    Contributions contributions(graph_, wanted_);
    for (std::uint32_t n = 0; n < active_.size(); ++n)
      if (active_[n]) announce_outputs(contributions, n);
    for (std::uint32_t n = 0; n < active_.size(); ++n) {
      if (!active_[n]) continue;
      for (std::size_t i = 0; i < varied_inputs_[n].size(); ++i)
        if (varied_inputs_[n][i]) contributions.expect(graph_.nodes()[n].inputs[i]);
    }
    for (const GradientSeed& seed : seeds_) contributions.expect(seed.value);
    check_all_of_wanted_is_active();

    const auto found = std::find(active_.rbegin(), active_.rend(), true);
    const auto last = found == active_.rend() ? 0 : static_cast<std::uint32_t>(active_.rend() - found - 1);
    SavedValues saved(graph_, options_, last);
    if (found != active_.rend()) contributions.as_of(how_of(last));
    for (const GradientSeed& seed : seeds_) contributions.give(seed.value, seed.gradient);
    for (auto n = static_cast<std::uint32_t>(active_.size()); n-- > 0;)
      if (active_[n]) differentiate_node(n, saved, contributions);
    return contributions.results();
  }

 private:
  std::string text(ValueId value) const { return concat("'", graph_.value(value).name, "' ", graph_.describe(value)); }

  void check_value(ValueId value, const char* what) const {
    if (value >= graph_.values().size()) refuse_gradient(what, " is value ", value, ", which is not in graph '", graph_.name(), "'");
    if (!is_float(graph_.value(value).dtype))
      refuse_gradient(what, " ", text(value), " is no float; only f32, f16 and bf16 have gradients");
  }

  void check_arguments() const {
    for (const GradientSeed& seed : seeds_) {
      check_value(seed.value, "the seed");
      check_value(seed.gradient, "the gradient of a seed");
      if (graph_.value(seed.gradient).shape != graph_.value(seed.value).shape)
        refuse_gradient("the seed ", text(seed.value), " has the gradient ", text(seed.gradient), "; both need the same shape");
    }
    for (const GradientWanted& one : wanted_) {
      check_value(one.value, "the parameter");
      if (!is_contiguous(graph_, one.value))
        refuse_gradient("the parameter ", text(one.value), " is a strided view; ask for what it is a view of");
      if (one.into != no_value) check_into(one);
    }
    if (options_.checkpointing != Checkpointing::none && options_.segments.empty())
      refuse_gradient("checkpointing needs segments, the nodes at which layers begin");
    for (std::size_t i = 0; i < options_.segments.size(); ++i)
      if (options_.segments[i] >= graph_.nodes().size() || (i > 0 && options_.segments[i] <= options_.segments[i - 1]))
        refuse_gradient("segment ", i, " begins at node ", options_.segments[i], "; segments must ascend and be below ",
                        graph_.nodes().size());
  }

  void check_into(const GradientWanted& one) const {
    check_value(one.into, "the sum of a gradient");
    const Value& into = graph_.value(one.into);
    if (into.dtype != QUERN_F32 || graph_.value(graph_.root(one.into)).kind != QUERN_VALUE_STATE || !is_contiguous(graph_, one.into) ||
        into.shape != graph_.value(one.value).shape)
      refuse_gradient("the gradient of ", text(one.value), " is to be added to ", text(one.into),
                      "; that must be f32 state of the same shape, or a contiguous view of one");
    for (const GradientSeed& seed : seeds_)
      if (overlap(graph_, seed.gradient, one.into))
        refuse_gradient(text(one.into), " is to take a gradient and is the gradient of a seed too");
    for (const GradientWanted& other : wanted_)
      if (overlap(graph_, other.value, one.into) || (&other != &one && other.into != no_value && overlap(graph_, other.into, one.into)))
        refuse_gradient(text(one.into), " is to take the gradient of ", text(one.value),
                        " but shares memory with a parameter or with another sum");
  }

  /// Whether a change of the value changes what reads it: integers only choose. A block format counts, so that it is refused.
  static bool carries(quern_dtype dtype) { return is_float(dtype) || is_block_format(dtype); }

  bool varies(const Stretches& varied, ValueId value) const {
    return value != no_value && carries(graph_.value(value).dtype) && varied.touch(value);
  }

  /// By node: its inputs that change with a wanted value.
  void find_varied() {
    Stretches varied(graph_);
    for (const GradientWanted& one : wanted_) varied.add(one.value);
    for (const Node& node : graph_.nodes()) {
      std::vector<bool>& inputs = varied_inputs_.emplace_back();
      bool any = false;
      for (const ValueId input : node.inputs) {
        inputs.push_back(varies(varied, input));
        any |= inputs.back();
      }
      if (!any) continue;
      for (const ValueId output : node.outputs)
        if (output != no_value && carries(graph_.value(output).dtype)) varied.add(output);
    }
  }

  /// Nodes that change with a wanted value and on which a seed depends.
  void find_active() {
    Stretches useful(graph_);
    for (const GradientSeed& seed : seeds_) useful.add(seed.value);
    active_.resize(graph_.nodes().size());
    for (auto n = static_cast<std::uint32_t>(active_.size()); n-- > 0;) {
      const Node& node = graph_.nodes()[n];
      const bool varies = std::ranges::find(varied_inputs_[n], true) != varied_inputs_[n].end();
      const bool counts = std::ranges::any_of(node.outputs, [&](ValueId id) {
        return id != no_value && carries(graph_.value(id).dtype) && useful.touch(id);
      });
      if (!varies || !counts) continue;
      active_[n] = true;
      check_differentiable(n);
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        if (varied_inputs_[n][i]) useful.add(node.inputs[i]);
    }
  }

  void check_differentiable(std::uint32_t n) const {
    const Node& node = graph_.nodes()[n];
    const auto unsupported = [&](const auto&... words) {
      throw Error(QUERN_UNSUPPORTED, concat("differentiate: ", describe_node(node), " ", words...));
    };
    if (!find_gradient(node.op))
      unsupported("lies between a parameter and a seed, and ", op_name(node.op), " has no gradient; leave it out of the loss");
    if (node.predicate != no_value) unsupported("has a predicate, so its gradient is not known; compute the loss without one");
    for (const ValueId output : node.outputs) {
      if (output == no_value) continue;
      if (is_block_format(graph_.value(output).dtype)) unsupported("writes ", text(output), ", a block format, which has no gradient");
      if (graph_.value(graph_.root(output)).kind != QUERN_VALUE_STATE) continue;
      // Backward knows one content of each value.
      for (std::uint32_t other = 0; other < graph_.nodes().size(); ++other)
        for (const ValueId written : graph_.nodes()[other].outputs)
          if (other != n && written != no_value && overlap(graph_, written, output))
            unsupported("and ", describe_node(graph_.nodes()[other]), " both write the state ", text(output),
                        "; give each a value of its own");
      for (const GradientWanted& one : wanted_)
        if (graph_.root(one.value) == graph_.root(output))
          unsupported("writes the state that holds the parameter ", text(one.value), "; give it a value of its own");
    }
  }

  /// A wanted value that several nodes write in parts gets its gradient as these are differentiated: all of them must be.
  void check_all_of_wanted_is_active() const {
    std::vector<bool> passed(graph_.values().size());  // by root: backward goes through its writers
    for (std::uint32_t n = 0; n < active_.size(); ++n)
      for (const ValueId output : graph_.nodes()[n].outputs)
        if (active_[n] && output != no_value) passed[graph_.root(output)] = true;
    for (const GradientWanted& one : wanted_)
      for (std::uint32_t n = 0; passed[graph_.root(one.value)] && n < active_.size(); ++n)
        for (const ValueId output : graph_.nodes()[n].outputs)
          if (!active_[n] && output != no_value && overlap(graph_, output, one.value))
            throw Error(QUERN_UNSUPPORTED,
                        concat("differentiate: the parameter ", text(one.value), " lies in memory that is written in parts, and ",
                               describe_node(graph_.nodes()[n]), " depends on no other parameter; ask for a value of its own"));
  }

  NodeOptions how_of(std::uint32_t n) const {
    const Node& node = graph_.nodes()[n];
    NodeOptions how;
    if (!node.name.empty()) how.name = node.name + ".gradient";
    how.conversions = node.conversions;
    how.determinism = node.determinism;
    return how;
  }

  void announce_outputs(Contributions& contributions, std::uint32_t n) const {
    const Node& node = graph_.nodes()[n];
    for (const ValueId output : node.outputs)
      if (output != no_value && is_float(graph_.value(output).dtype)) contributions.produced(output);
    if (node.op == QUERN_OP_CAST && contributions.sum_dtype(node.inputs[0]) == QUERN_F32 && contributions.is_wanted(node.inputs[0]))
      contributions.is_copy(node.outputs[0]);
  }

  void differentiate_node(std::uint32_t n, SavedValues& saved, Contributions& contributions) {
    const Node node = graph_.nodes()[n];
    contributions.as_of(how_of(n));
    std::vector<ValueId> dy(node.outputs.size(), no_value);
    bool any = false;
    for (std::size_t i = 0; i < dy.size(); ++i) {
      if (node.outputs[i] == no_value || !is_float(graph_.value(node.outputs[i]).dtype)) continue;
      dy[i] = contributions.take(node.outputs[i]);
      any |= dy[i] != no_value;
    }
    if (!any) return;
    GradientCall call(graph_, n, saved, contributions, std::move(dy), varied_inputs_[n], options_);
    find_gradient(node.op)(call);
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (call.wants(i) && !call.given(i)) {
        const std::vector<OpSlot>& slots = find_op(node.op)->inputs;
        call.fail("has no gradient for its input ", slots[std::min(i, slots.size() - 1)].name, ", ", text(node.inputs[i]),
                  ", which depends on a parameter");
      }
  }

  Graph& graph_;
  const std::vector<GradientSeed>& seeds_;
  const std::vector<GradientWanted>& wanted_;
  const DifferentiateOptions& options_;
  std::vector<std::vector<bool>> varied_inputs_;  // by node
  std::vector<bool> active_;                      // by node
};

}  // namespace

std::vector<ValueId> differentiate(Graph& graph, const std::vector<GradientSeed>& seeds, const std::vector<GradientWanted>& wanted,
                                   const DifferentiateOptions& options) {
  Graph extended = graph;  // what fails half way leaves the graph as it was
  std::vector<ValueId> gradients = Walk(extended, seeds, wanted, options).run();
  graph = std::move(extended);
  return gradients;
}

}  // namespace quern::graph
