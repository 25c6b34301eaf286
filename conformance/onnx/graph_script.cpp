// See graph_script.hpp.
#include "onnx/graph_script.hpp"

#include "case_table/case_table.hpp"
#include "device_run/status_words.hpp"
#include "device_run/device_memory.hpp"
#include "device_run/prepared.hpp"
#include "judge/judge.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace quern::conformance::onnx {
namespace {

constexpr std::byte poisons[] = {std::byte{0xff}, std::byte{0xa5}};

quern_attribute attribute(const Attribute& a) {
  switch (a.key) {
#define QUERN_KEY(id, NAME, name, type) \
  case id: \
    return std::string_view(#type) == "I64" ? quern_attribute{id, QUERN_ATTR_I64, static_cast<std::int64_t>(a.value), 0.0} \
                                            : quern_attribute{id, QUERN_ATTR_F64, 0, a.value};
#include "quern/keys.def"
#undef QUERN_KEY
    default: throw std::logic_error("an ONNX test has an attribute without a key");
  }
}

/// The vector as the ABI wants it. Value ids are those of the vector; what one node makes and another reads is an output too, so that
/// it can be judged.
class Graph {
 public:
  explicit Graph(const Vector& vector) {
    values_.reserve(vector.values.size());
    for (const Value& v : vector.values) values_.push_back(value(v));
    for (const Node& n : vector.nodes) {
      ids_.push_back(ids(n.inputs));
      ids_.push_back(ids(n.outputs));
      attributes_.emplace_back();
      for (const Attribute& a : n.attributes) attributes_.back().push_back(attribute(a));
    }
    for (std::size_t n = 0; n < vector.nodes.size(); ++n)
      nodes_.push_back(node(vector.nodes[n].op, ids_[2 * n], ids_[2 * n + 1], attributes_[n]));
    graph_.header = {sizeof graph_, QUERN_TYPE_GRAPH, nullptr};
    graph_.values = {values_.data(), values_.size(), sizeof(quern_value)};
    graph_.nodes = {nodes_.data(), nodes_.size(), sizeof(quern_node)};
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  const quern_graph* get() const noexcept { return &graph_; }

 private:
  static quern_value value(const Value& from) {
    quern_value v{};
    v.header = {sizeof v, QUERN_TYPE_VALUE, nullptr};
    v.kind = from.role == Value::Role::input    ? QUERN_VALUE_INPUT
             : from.role == Value::Role::state  ? QUERN_VALUE_STATE
             : from.role == Value::Role::output ? QUERN_VALUE_OUTPUT
                                                : QUERN_VALUE_INTERNAL;
    v.dtype = from.dtype;
    v.rank = static_cast<std::uint32_t>(from.dims.size());
    v.alias_of = QUERN_NONE;
    std::copy(from.dims.begin(), from.dims.end(), v.dims);
    if (from.role == Value::Role::view) {
      v.uses |= QUERN_VALUE_USES_ALIAS;
      v.alias_of = static_cast<std::uint32_t>(from.of);
    }
    if (!from.layout.packed()) {
      const Placement placement(from.dtype, from.dims, from.layout);
      v.uses |= QUERN_VALUE_USES_STRIDES;
      std::copy(placement.strides().begin(), placement.strides().end(), v.strides);
    }
    return v;
  }
  static std::vector<std::uint32_t> ids(const std::vector<std::size_t>& from) {
    std::vector<std::uint32_t> list;
    for (const std::size_t id : from) list.push_back(id == no_value ? QUERN_NONE : static_cast<std::uint32_t>(id));
    return list;
  }
  static quern_node node(std::uint32_t op, std::vector<std::uint32_t>& inputs, std::vector<std::uint32_t>& outputs,
                         std::vector<quern_attribute>& attributes) {
    quern_node n{};
    n.header = {sizeof n, QUERN_TYPE_NODE, nullptr};
    n.op = op;
    n.op_revision = 1;
    n.inputs = {inputs.data(), inputs.size(), sizeof(std::uint32_t)};
    n.outputs = {outputs.data(), outputs.size(), sizeof(std::uint32_t)};
    n.attributes = {attributes.data(), attributes.size(), sizeof(quern_attribute)};
    n.predicate = QUERN_NONE;
    n.accumulate = QUERN_F32;
    n.determinism = QUERN_DETERMINISM_REPEATABLE;
    n.uses = QUERN_NODE_USES_DETERMINISM;
    return n;
  }

  std::vector<quern_value> values_;
  std::vector<std::vector<std::uint32_t>> ids_;
  std::vector<std::vector<quern_attribute>> attributes_;
  std::vector<quern_node> nodes_;
  quern_graph graph_{};
};

/// Device memory of each value that has its own, and what it held before the run.
class Memories {
 public:
  Memories(const loader::Device& device, Queue& queue, const Vector& vector) : vector_(vector), places_(vector.values.size()) {
    for (std::size_t v = 0; v < places_.size(); ++v) {
      const Value& value = vector.values[v];
      if (value.role == Value::Role::view) continue;
      places_[v].placement = std::make_unique<Placement>(value.dtype, value.dims, value.layout);
      places_[v].region = std::make_unique<Region>(device, queue, places_[v].placement->bytes(), 0, false);
      bindings_[static_cast<std::uint32_t>(v)] = places_[v].region.get();
    }
  }
  const std::map<std::uint32_t, Region*>& bindings() const noexcept { return bindings_; }

  void set(std::byte poison) {
    for (std::size_t v = 0; v < places_.size(); ++v) {
      Place& place = places_[v];
      if (!place.region) continue;
      place.before.assign(place.placement->bytes(), poison);
      if (!vector_.values[v].data.empty()) place.placement->scatter(vector_.values[v].data, place.before);
      place.region->write(place.before);
    }
  }
  /// Every value as the device left it; a view shares the bytes of its value.
  std::vector<Tensor> read(ScriptContext& t) {
    std::vector<Tensor> tensors(places_.size());
    for (std::size_t v = 0; v < places_.size(); ++v) {
      const Value& value = vector_.values[v];
      if (value.role == Value::Role::view) {
        tensors[v] = Tensor(value.dtype, value.dims, tensors.at(value.of).bytes());
        continue;
      }
      const std::string damage = places_[v].region->canary_damage();
      t.check(damage.empty(), "the memory beside value " + std::to_string(v) + " is whole: " + damage);
      const std::vector<std::byte> after = places_[v].region->read();
      if (value.role == Value::Role::input) t.check(after == places_[v].before, "value " + std::to_string(v) + ", an input, is unchanged");
      tensors[v] = Tensor(value.dtype, value.dims);
      places_[v].placement->gather(after, tensors[v].bytes());
    }
    return tensors;
  }

 private:
  struct Place {
    std::unique_ptr<Placement> placement;
    std::unique_ptr<Region> region;
    std::vector<std::byte> before;
  };
  const Vector& vector_;
  std::vector<Place> places_;
  std::map<std::uint32_t, Region*> bindings_;
};

/// Unsupported if the plugin says no to a node. A graph of one-node cases needs no values at compile time, so YES_IF is a no here.
void require_support(ScriptContext& t, const Vector& vector, const Graph& graph) {
  quern_support_options options{};
  options.header = {sizeof options, QUERN_TYPE_SUPPORT_OPTIONS, nullptr};
  std::vector<quern_answer> answers(vector.nodes.size());
  for (quern_answer& a : answers) a.header = {sizeof a, QUERN_TYPE_ANSWER, nullptr};
  AbiError error;
  error.check(t.api().support(t.device().handle(), graph.get(), &options, answers.data(), error.get()), "support");
  for (std::size_t n = 0; n < answers.size(); ++n) {
    if (answers[n].verdict == QUERN_ANSWER_YES || answers[n].verdict == QUERN_ANSWER_YES_IN_GROUP) continue;
    const std::string text = answers[n].text.data == nullptr ? std::string() : std::string(answers[n].text.data, answers[n].text.size);
    t.unsupported("node " + std::to_string(n) + ", " + op_name(vector.nodes[n].op) + ": " + (text.empty() ? "no reason given" : text));
  }
}

void judge_nodes(ScriptContext& t, const Vector& vector, const References& references, const std::vector<Tensor>& found) {
  for (std::size_t n = 0; n < vector.nodes.size(); ++n) {
    const Case node = node_case(vector, n);
    std::vector<Tensor> inputs, states;
    for (const std::size_t id : vector.nodes[n].inputs) inputs.push_back(id == no_value ? Tensor() : found[id]);
    for (const std::size_t id : vector.nodes[n].outputs) {
      const bool state = id != no_value && vector.values[id].role == Value::Role::state;
      states.push_back(state ? Tensor(vector.values[id].dtype, vector.values[id].dims) : Tensor());
      if (state) std::memcpy(states.back().bytes().data(), vector.values[id].data.data(), vector.values[id].data.size());
    }
    Expected expected;
    expected.outputs.resize(node.outputs.size());
    references[n]({node, inputs, states}, expected);
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      if (node.outputs[o].absent()) continue;
      Verdict verdict = judge(expected.outputs[o], found[vector.nodes[n].outputs[o]], Numerics::exact);
      if (verdict.status != Status::pass) verdict.text = "node " + std::to_string(n) + ", " + op_name(node.op) + ": " + verdict.text;
      t.merge(verdict);
    }
  }
}

}  // namespace

void run_graph(ScriptContext& t, const Vector& vector, const References& references) {
  const std::vector<Tensor> reference = reference_values(vector, references);
  for (std::size_t v = 0; v < vector.values.size(); ++v)
    if (const std::string problem = disagreement(vector, v, reference[v]); !problem.empty())
      return t.merge({Status::unknown, problem, 0, 0, {}});

  const Graph graph(vector);
  require_support(t, vector, graph);
  Queue queue(t.device());
  Memories memories(t.device(), queue, vector);
  Prepared prepared(t.device(), queue, graph.get(), memories.bindings());
  std::vector<Tensor> first;
  for (const std::byte poison : poisons) {
    memories.set(poison);
    prepared.poison_scratch(poison);
    const quern_run_status status = prepared.run(60);
    t.require(status.code == QUERN_OK, "the run ends with OK, found " + status_words(status.code));
    t.check(status.faults == 0, "the run raises no fault");
    std::vector<Tensor> found = memories.read(t);
    const std::string damage = prepared.scratch().canary_damage();
    t.check(damage.empty(), "the memory beside the scratch is whole: " + damage);
    for (std::size_t v = 0; v < first.size(); ++v)
      t.check(std::ranges::equal(first[v].bytes(), found[v].bytes()),
              "two runs on the same inputs give the same value " + std::to_string(v));
    if (first.empty()) {
      judge_nodes(t, vector, references, found);
      first = std::move(found);
    }
  }
}

}  // namespace quern::conformance::onnx
