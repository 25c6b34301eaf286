// See graph_run.hpp.
#include "device_run/graph_run.hpp"

#include "device_run/flat_graph.hpp"
#include "device_run/status_words.hpp"
#include "device_run/weight_packing.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

namespace quern::conformance {
namespace {

bool all_equal(std::span<const std::byte> bytes, std::byte value) {
  return std::ranges::all_of(bytes, [&](std::byte b) { return b == value; });
}

/// More than 128 MiB of constants.
bool is_large(const Case& c) {
  std::uint64_t bytes = 0;
  for (const ValueSpec& v : c.inputs) bytes += v.kind == QUERN_VALUE_CONSTANT ? packed_bytes(v.dtype, v.dims) : 0;
  return bytes > std::uint64_t{128} << 20;
}

constexpr std::int64_t spare_rows = 7;  // that a session's graph has room for behind those of the run

/// Whether a graph picks rows of its own by number, so that it needs them all.
bool picks_rows(const WholeGraph& graph) {
  return std::ranges::any_of(graph.nodes, [&](const GraphNode& node) {
    return node.op == QUERN_OP_GET_ROWS &&
           graph.values[static_cast<std::size_t>(graph.root(node.inputs[0]))].spec.kind != QUERN_VALUE_CONSTANT;
  });
}

/// The graph with a ranged number of rows, and of rows whose outputs are wanted, as sessions build it, where both are fixed. It runs with all of
/// them, and with the first alone: the first row, or all rows with the first output. A training step's rows stay fixed: it sums over them.
WholeGraph with_ranged_rows(const WholeGraph& graph) {
  WholeGraph ranged = graph;
  if (graph.most.rows != 0 || graph.judge != nullptr || graph.steps.count != 1) return ranged;
  Extents all;
  for (GraphValue& v : ranged.values) {
    if (v.extent == Extent::own) continue;
    (v.extent == Extent::rows ? all.rows : all.outputs) = v.spec.dims[0];
    v.spec.dims[0] += spare_rows;
    v.ranged = true;
    (v.extent == Extent::rows ? ranged.most.rows : ranged.most.outputs) = v.spec.dims[0];
  }
  if (all.rows == 0) return ranged;
  const Extents fewest{picks_rows(graph) ? all.rows : 1, std::min<std::int64_t>(all.outputs, 1)};
  ranged.runs = {all};
  if (fewest != all) ranged.runs.push_back(fewest);
  return ranged;
}

/// The graph in one numerics, canonical or packed: its memory, and the plans that run in it.
class GraphRun {
 public:
  /// `constants`: the canonical bytes, by value; filled by the first run and kept for the others. `graph`: that of the case, or its form with
  /// ranged rows.
  GraphRun(const loader::Device& device, Queue& queue, const Case& c, const WholeGraph& graph, const CaseData& data, Numerics numerics,
           bool packed, std::map<int, std::unique_ptr<Region>>& constants, std::vector<ModeResult>& results)
      : device_(device),
        queue_(queue),
        case_(c),
        graph_(graph),
        data_(data),
        numerics_(numerics),
        packed_(packed),
        constants_(constants),
        results_(results) {
    for (int v = 0; v < static_cast<int>(graph_.values.size()); ++v) {
      const GraphValue& value = graph_.values[static_cast<std::size_t>(v)];
      const bool constant = value.spec.kind == QUERN_VALUE_CONSTANT;
      if (value.alias_of != no_value || (constant && constants_.contains(v))) continue;
      auto made = std::make_unique<Region>(device, queue, packed_bytes(value.spec.dtype, value.spec.dims), 0, false);
      if (constant) made->write(data.inputs[static_cast<std::size_t>(value.input)].bytes());
      (constant ? constants_ : regions_)[v] = std::move(made);
    }
  }

  void run() {
    if (packed_ && !pack()) return;  // nothing to pack: no modes
    if (!is_supported()) return;
    const Extents extents = first_run();
    run_plan(Role::whole, {}, {}, true, extents);
    run_plan(Role::unfused, "without fusion", {}, false, extents);
    run_node_by_node(extents);
    if (graph_.mark_each)
      for (int v = 0; v < static_cast<int>(graph_.values.size()); ++v)
        if (can_be_marked(v))
          run_plan(Role::marked, "with " + graph_.values[static_cast<std::size_t>(v)].name + " marked", {v}, true, extents);
    run_other_rows();
    check_constants();
  }

  /// The whole plan alone, with nodes that ask for what a session's do; packed where the plugin plans a layout. Each number of rows.
  void run_as_session() {
    as_session_ = true;
    determinism_ = session_determinism(device_, case_);
    packed_ = packed_ && pack();
    if (device_.info().device_class != QUERN_DEVICE_CPU && !refusal().empty()) return;
    if (!is_supported()) return;
    run_plan(Role::whole, {}, {}, true, first_run());
    run_other_rows();
    check_constants();
  }

 private:
  Extents first_run() const noexcept { return graph_.runs.empty() ? graph_.most : graph_.runs.front(); }

  void run_other_rows() {
    for (std::size_t i = 1; i < graph_.runs.size(); ++i) {
      const Extents& run = graph_.runs[i];
      const std::string outputs = graph_.most.outputs == 0 ? "" : " and " + std::to_string(run.outputs) + " outputs";
      run_plan(Role::other_rows, "of " + std::to_string(run.rows) + " rows" + outputs, {}, true, run);
    }
  }

  bool is_supported() {
    const std::string reason = refusal();
    if (reason.empty()) return true;
    ModeResult mode = mode_of(Role::whole, {}, {});
    mode.outcome = Outcome::unsupported;
    mode.text = reason;
    FlatGraph flat(graph_, numerics_, {}, determinism_);
    prepare_flat(flat);
    if (const quern_status status = Prepared::try_compile(device_, flat.graph());
        status != QUERN_UNSUPPORTED && status != QUERN_INVALID_ARGUMENT) {
      mode.outcome = Outcome::failed;
      mode.text = "support says no (" + reason + ") and compile answered " + status_words(status) + ", expected UNSUPPORTED";
    }
    results_.push_back(std::move(mode));
    return false;
  }

  /// Of the symbols of the flat graph.
  std::vector<quern_bound> bounds_of(const Extents& extents) const {
    std::vector<quern_bound> bounds;
    if (graph_.most.rows != 0) bounds.push_back({0, 0, extents.rows});
    if (graph_.most.outputs != 0) bounds.push_back({1, 0, extents.outputs});
    return bounds;
  }
  const GraphValue& at(int v) const { return graph_.values[static_cast<std::size_t>(v)]; }
  Region& region(int v) {
    const int root = graph_.root(v);
    const auto packed = packed_regions_.find(root);
    if (packed != packed_regions_.end()) return *packed->second.region;
    return at(root).spec.kind == QUERN_VALUE_CONSTANT ? *constants_.at(root) : *regions_.at(root);
  }

  ModeResult mode_of(Role role, std::string label, const Extents& extents) const {
    ModeResult mode;
    mode.numerics = numerics_;
    mode.packed = packed_;
    mode.as_session = as_session_;
    mode.role = role;
    mode.label = std::move(label);
    mode.extents = extents;
    return mode;
  }

  bool pack() {
    FlatGraph flat(graph_, numerics_, {}, determinism_);
    std::map<std::uint32_t, Region*> sources;
    for (const auto& [v, id] : flat.bound())
      if (at(v).spec.kind == QUERN_VALUE_CONSTANT) sources[id] = constants_.at(v).get();
    for (auto& [id, weight] : pack_constants(device_, queue_, flat.graph(), sources))
      packed_regions_[flat.value_of(id)] = std::move(weight);
    return !packed_regions_.empty();
  }

  /// Layouts of packed constants; their bytes where the plugin asked for them.
  void prepare_flat(FlatGraph& flat) const {
    for (const auto& [v, weight] : packed_regions_) flat.set_layout(v, weight.layout);
    if (!wants_values_) return;
    for (int v = 0; v < static_cast<int>(graph_.values.size()); ++v)
      if (at(v).spec.kind == QUERN_VALUE_CONSTANT && !packed_regions_.contains(v))
        flat.set_data(v, data_.inputs[static_cast<std::size_t>(at(v).input)].bytes());
  }

  /// Why a node of the graph is not supported; empty: all are.
  std::string refusal() {
    for (int round = 0; round < 2; ++round) {
      FlatGraph flat(graph_, numerics_, {}, determinism_);
      prepare_flat(flat);
      const std::vector<SupportAnswer> answers = support_of_nodes(device_, flat.graph());
      bool wants = false;
      for (std::size_t n = 0; n < answers.size(); ++n) {
        if (answers[n].verdict == QUERN_ANSWER_YES || answers[n].verdict == QUERN_ANSWER_YES_IN_GROUP) continue;
        const std::string node = "node " + std::to_string(n) + ": ";
        if (answers[n].verdict != QUERN_ANSWER_YES_IF) return node + (answers[n].text.empty() ? "no reason given" : answers[n].text);
        if (answers[n].needs_other_than_values) return node + "only under a requirement that canonical values do not meet";
        wants = true;
      }
      if (!wants) return {};
      wants_values_ = true;
    }
    return "a node still asks for values that it was given";
  }

  bool can_be_marked(int v) const {
    if (at(v).spec.kind != QUERN_VALUE_INTERNAL || at(v).alias_of != no_value || at(v).output == no_value) return false;
    for (int other = 0; other < static_cast<int>(graph_.values.size()); ++other)  // a later node overwrites it
      if (other != v && graph_.root(other) == v && at(other).output != no_value) return false;
    return true;
  }

  /// Contents of inputs and states before a run; poison in what the nodes write.
  void reset(std::byte poison, int step) {
    for (int v = 0; v < static_cast<int>(graph_.values.size()); ++v) {
      const GraphValue& value = at(v);
      if (value.alias_of != no_value || value.spec.kind == QUERN_VALUE_CONSTANT) continue;
      const bool given = value.spec.kind == QUERN_VALUE_INPUT || value.spec.kind == QUERN_VALUE_STATE;
      if (!given || data_.inputs[static_cast<std::size_t>(value.input)].bytes().size() < region(v).bytes()) region(v).fill(poison);
      if (!given) continue;
      if (step <= 1 || value.spec.kind == QUERN_VALUE_INPUT) region(v).write(data_.inputs[static_cast<std::size_t>(value.input)].bytes());
    }
    if (graph_.steps.fill == nullptr) return;
    std::vector<Tensor> changing;
    for (const int v : graph_.steps.changing) changing.emplace_back(at(v).spec.dtype, at(v).spec.dims);
    graph_.steps.fill(step, changing);
    for (std::size_t i = 0; i < changing.size(); ++i) region(graph_.steps.changing[i]).write(changing[i].bytes());
  }

  std::uint64_t live_bytes(const GraphValue& value, const Extents& extents) const {
    Dims dims = value.spec.dims;
    if (value.ranged) dims[0] = extents.of(value.extent);
    return packed_bytes(value.spec.dtype, dims);
  }

  /// Reads what a value holds after a run, and checks that rows beyond the run's still hold the poison.
  Tensor observe(int v, const Contents& now, const Extents& extents, std::byte poison, std::string& problem) const {
    Tensor tensor(at(v).spec.dtype, at(v).spec.dims);
    const std::vector<std::byte> bytes = now.read();
    std::ranges::copy(bytes, tensor.bytes().begin());
    const std::uint64_t live = live_bytes(at(v), extents);
    if (live < bytes.size() && !all_equal(std::span(bytes).subspan(live), poison))
      problem = at(v).name + ": rows beyond the run's were written";
    return tensor;
  }

  /// Of what runs may write, behind a run; constants are looked at behind the last.
  struct Seen {
    std::map<int, Contents> values;
    Contents scratch;
  };
  Seen look(Prepared& prepared) const {
    queue_.gather();
    Seen now{{}, prepared.scratch()};
    for (const auto& [v, r] : regions_) now.values.emplace(v, *r);
    queue_.settle();
    return now;
  }

  std::string damage(const Seen& now) const {
    for (const auto& [v, contents] : now.values)
      if (std::string text = contents.canary_damage(); !text.empty()) return at(v).name + ": " + text;
    for (int v = 0; v < static_cast<int>(graph_.values.size()); ++v) {
      if (at(v).spec.kind != QUERN_VALUE_INPUT || is_changing(v) || is_overwritten(v)) continue;
      const auto given = data_.inputs[static_cast<std::size_t>(at(v).input)].bytes();
      if (!now.values.at(graph_.root(v)).begins_with(given)) return at(v).name + ", an input, was changed";
    }
    const std::string scratch = now.scratch.canary_damage();
    return scratch.empty() ? std::string() : "scratch: " + scratch;
  }
  bool is_changing(int v) const { return std::ranges::find(graph_.steps.changing, v) != graph_.steps.changing.end(); }
  bool is_overwritten(int v) const {
    for (const GraphNode& node : graph_.nodes)
      for (const int y : node.outputs)
        if (y != no_value && graph_.root(y) == v) return true;
    return false;
  }

  std::map<std::uint32_t, Region*> bindings_of(const FlatGraph& flat) {
    std::map<std::uint32_t, Region*> bindings;
    for (const auto& [v, id] : flat.bound()) bindings[id] = &region(v);
    return bindings;
  }

  /// Empty if the run ended as it should.
  std::string status_problem(const quern_run_status& status) const {
    if (status.code != QUERN_OK)
      throw AbiFailure(status.code, "the run ended with " + status_words(status.code) +
                                        (status.node == QUERN_NONE ? " at no node" : " at node " + std::to_string(status.node)));
    if (status.faults == graph_.faults) return {};
    return "the run raised the faults " + fault_words(status.faults) + ", expected " + fault_words(graph_.faults);
  }

  /// The instance is bounded by the extents of its run; as a session asks, the run alone is.
  void run_plan(Role role, std::string label, const std::set<int>& marked, bool fusion, const Extents& extents) {
    ModeResult mode = mode_of(role, std::move(label), extents);
    guarded(mode, [&] {
      FlatGraph flat(graph_, numerics_, marked, determinism_);
      prepare_flat(flat);
      const std::vector<quern_bound> bounds = bounds_of(extents);
      Prepared prepared(device_, queue_, flat.graph(), bindings_of(flat), {fusion, {}, as_session_ ? std::vector<quern_bound>() : bounds});
      mode.facts = prepared.facts();
      mode.kernel = prepared.kernels();
      if (mode.facts.told && mode.facts.determinism < determinism_) {
        mode.text = "the plan's determinism is " + std::to_string(mode.facts.determinism) + ", its nodes ask for " +
                    std::to_string(determinism_) + " [C17]";
        return;
      }
      const int runs = role == Role::whole && graph_.steps.count == 1 && !is_large(case_) ? runs_of(case_) : 1;
      for (int step = 1; step <= graph_.steps.count; ++step)
        for (int r = 0; r < runs; ++r) {
          std::vector<Tensor> outputs =
              run_once(mode, flat, prepared, poisons[r % 2], step, as_session_ ? bounds : std::vector<quern_bound>());
          if (!mode.text.empty()) return;
          if (r == 0) mode.outputs = std::move(outputs);
          else if (!same_bits(mode.outputs, outputs, extents)) {
            mode.text = r < 2
                            ? "two runs on the same inputs differ: an output depends on what lay in outputs or scratch before"
                            : "two runs on the same inputs differ: run " + std::to_string(r + 1) + " gave other bits than those before it";
            return;
          }
          if (graph_.steps.count > 1) emit_step(mode, step);
        }
      mode.outcome = Outcome::ran;
    });
    if (graph_.steps.count == 1 || mode.outcome != Outcome::ran) results_.push_back(std::move(mode));
  }

  /// The results of one step of several: a mode of its own.
  void emit_step(const ModeResult& mode, int step) {
    ModeResult one = mode;
    one.step = step;
    one.label += (one.label.empty() ? "step " : ", step ") + std::to_string(step);
    one.outcome = Outcome::ran;
    results_.push_back(std::move(one));
  }

  std::vector<Tensor> run_once(ModeResult& mode, const FlatGraph& flat, Prepared& prepared, std::byte poison, int step,
                               const std::vector<quern_bound>& bounds) {
    reset(poison, step);
    prepared.poison_scratch(poison);
    mode.text = status_problem(prepared.run(case_.deadline_seconds, {}, bounds));
    const Seen now = look(prepared);
    if (const std::string text = damage(now); !text.empty()) mode.text = text;
    std::vector<Tensor> outputs(case_.outputs.size());
    for (const auto& [v, id] : flat.bound())
      if (at(v).output != no_value)
        outputs[static_cast<std::size_t>(at(v).output)] = observe(v, now.values.at(graph_.root(v)), mode.extents, poison, mode.text);
    return outputs;
  }

  bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b, const Extents& extents) const {
    for (const GraphValue& value : graph_.values) {
      if (value.output == no_value) continue;
      const auto o = static_cast<std::size_t>(value.output);
      if (a[o].absent() || b[o].absent()) continue;
      const std::uint64_t live = live_bytes(value, extents);
      if (!std::ranges::equal(a[o].bytes().first(live), b[o].bytes().first(live))) return false;
    }
    return true;
  }

  void run_node_by_node(const Extents& extents) {
    ModeResult mode = mode_of(Role::node_by_node, "node by node", extents);
    guarded(mode, [&] {
      mode.facts.told = true;
      mode.facts.determinism = QUERN_DETERMINISM_INVARIANT;
      std::vector<std::unique_ptr<FlatGraph>> flats;
      std::vector<std::unique_ptr<Prepared>> plans;
      for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
        flats.push_back(std::make_unique<FlatGraph>(graph_, numerics_, OnlyNode{n}));
        prepare_flat(*flats.back());
        plans.push_back(std::make_unique<Prepared>(device_, queue_, flats.back()->graph(), bindings_of(*flats.back()),
                                                   PlanOptions{true, {}, bounds_of(extents)}));
        const PlanFacts& facts = plans.back()->facts();
        mode.facts.told = mode.facts.told && facts.told;
        mode.facts.determinism = std::min(mode.facts.determinism, facts.determinism);
        mode.facts.kernels.push_back(plans.back()->kernels());
        mode.kernel += (mode.kernel.empty() ? "" : "+") + plans.back()->kernels();
      }
      for (int step = 1; step <= graph_.steps.count; ++step) {
        reset(poisons[0], step);
        mode.outputs.assign(case_.outputs.size(), {});
        std::uint64_t faults = 0;
        for (std::size_t n = 0; n < plans.size(); ++n) {
          plans[n]->poison_scratch(poisons[0]);
          const quern_run_status status = plans[n]->run(case_.deadline_seconds);
          if (status.code != QUERN_OK)
            throw AbiFailure(status.code, "node " + std::to_string(n) + " ended with " + status_words(status.code));
          faults |= status.faults;
          queue_.gather();
          const Contents scratch = plans[n]->scratch();
          std::map<int, Contents> made;
          for (const int y : graph_.nodes[n].outputs)
            if (y != no_value) made.emplace(y, region(y));
          queue_.settle();
          for (const auto& [y, contents] : made)
            mode.outputs[static_cast<std::size_t>(at(y).output)] = observe(y, contents, extents, poisons[0], mode.text);
          if (const std::string text = scratch.canary_damage(); !text.empty())
            mode.text = "scratch of node " + std::to_string(n) + ": " + text;
        }
        if (faults != graph_.faults)
          mode.text = "the nodes raised the faults " + fault_words(faults) + ", expected " + fault_words(graph_.faults);
        if (const std::string text = damage(look(*plans.back())); !text.empty()) mode.text = text;
        if (!mode.text.empty()) return;
        if (graph_.steps.count > 1) emit_step(mode, step);
      }
      mode.outcome = Outcome::ran;
    });
    if (graph_.steps.count == 1 || mode.outcome != Outcome::ran) results_.push_back(std::move(mode));
  }

  /// Constants are never written: looked at once, after all plans of this numerics have run.
  void check_constants() {
    const auto found = [&](const std::string& text) {
      ModeResult mode = mode_of(Role::whole, {}, {});
      mode.text = text;
      results_.push_back(std::move(mode));
    };
    for (const auto& [v, r] : constants_) {
      const Contents now(*r);
      if (!now.holds(data_.inputs[static_cast<std::size_t>(at(v).input)].bytes())) found(at(v).name + ", a constant, was changed");
      if (const std::string text = now.canary_damage(); !text.empty()) found(at(v).name + ": " + text);
    }
    for (const auto& [v, weight] : packed_regions_)
      if (const std::string text = weight.region->canary_damage(); !text.empty()) found(at(v).name + ", packed: " + text);
  }

  template <class F>
  void guarded(ModeResult& mode, const F& body) {
    try {
      body();
    } catch (const AbiFailure& failure) {
      mode.outcome = failure.status() == QUERN_OUT_OF_MEMORY || failure.status() == QUERN_HOST_OUT_OF_MEMORY ? Outcome::resource
                                                                                                             : Outcome::failed;
      mode.text = failure.what();
      if (failure.status() == QUERN_DEVICE_LOST) throw;
    }
  }

  const loader::Device& device_;
  Queue& queue_;
  const Case& case_;
  const WholeGraph& graph_;
  const CaseData& data_;
  Numerics numerics_;
  bool packed_, wants_values_ = false, as_session_ = false;
  std::uint32_t determinism_ = QUERN_DETERMINISM_REPEATABLE;
  std::map<int, std::unique_ptr<Region>>& constants_;
  std::vector<ModeResult>& results_;
  std::map<int, std::unique_ptr<Region>> regions_;
  std::map<int, PackedWeight> packed_regions_;
};

/// Whether the plugin plans a layout for a constant of the graph in fast numerics.
bool wants_layouts(const loader::Device& device, const Case& c) {
  if (device.api().weights_plan == nullptr) return false;
  const FlatGraph flat(*c.graph, Numerics::fast);
  return weights_are_planned(device, flat.graph());
}

}  // namespace

std::vector<ModeResult> run_graph(const loader::Device& device, const Case& c, const CaseData& data, bool as_session) {
  Queue queue(device);
  queue.write_ahead();
  std::vector<ModeResult> results;
  std::map<int, std::unique_ptr<Region>> constants;
  /// Whether the device is there still.
  const auto guarded = [&](Numerics numerics, bool packed, bool session, const auto& run) {
    ModeResult mode;
    mode.numerics = numerics;
    mode.packed = packed;
    mode.as_session = session;
    mode.role = Role::whole;
    try {
      run();
      return true;
    } catch (const AbiFailure& failure) {
      const quern_status status = failure.status();
      mode.outcome = status == QUERN_DEVICE_LOST                                           ? Outcome::device_lost
                     : status == QUERN_OUT_OF_MEMORY || status == QUERN_HOST_OUT_OF_MEMORY ? Outcome::resource
                                                                                           : Outcome::failed;
      mode.text = failure.what();
    } catch (const std::bad_alloc&) {
      mode.outcome = Outcome::resource;
      mode.text = "the suite itself is out of host memory";
    }
    results.push_back(std::move(mode));
    return results.back().outcome != Outcome::device_lost;
  };
  const bool packs = device.api().weights_plan != nullptr;
  const WholeGraph of_session = with_ranged_rows(*c.graph);
  const bool spares = spares_layouts(device, c);
  for (const Numerics numerics : {Numerics::exact, Numerics::fast}) {
    if (numerics == Numerics::fast && c.fast_conversions == 0) continue;
    for (const bool packed : {false, true}) {
      if (packed && !packs) continue;
      // Large weights run in the layouts that the plugin wants for fast numerics, where it wants any.
      if (!packed && numerics == Numerics::fast && (spares || is_large(c)) && wants_layouts(device, c)) continue;
      if (packed && numerics == Numerics::exact && spares) continue;
      if (!guarded(numerics, packed, false,
                   [&] { GraphRun(device, queue, c, *c.graph, data, numerics, packed, constants, results).run(); }))
        return results;
    }
    if (!as_session || !runs_as_session(device, c)) continue;
    if (!guarded(numerics, packs, true,
                 [&] { GraphRun(device, queue, c, of_session, data, numerics, packs, constants, results).run_as_session(); }))
      return results;
  }
  return results;
}

}  // namespace quern::conformance
