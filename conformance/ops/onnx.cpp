// The node tests of ONNX: values that another project computed, for every op that has a family here.
//
// A test of one node is an ordinary case with ONNX's data; one of several nodes is a script that runs them as one graph. Either is
// judged by the references of the ops' own families, which must give ONNX's values at ONNX's tolerance first, else the case is
// `unknown`. A test whose ops have no family yet has no case; this family is generated after all others, whose references it takes.
#include "ops/onnx.hpp"

#include "onnx/graph_script.hpp"
#include "ops/family.hpp"

#include <algorithm>
#include <unordered_map>

namespace quern::conformance {
namespace {

/// The reference of a family, and after it the comparison with ONNX.
Reference checked(const onnx::Vector& vector, Reference reference) {
  return [&vector, reference = std::move(reference)](const ReferenceCall& call, Expected& expected) {
    reference(call, expected);
    const std::vector<Tensor> found = onnx::stored(call.what, expected);
    for (std::size_t o = 0; o < found.size(); ++o) {
      const std::size_t value = vector.nodes[0].outputs[o];
      if (value == onnx::no_value) continue;
      if (std::string problem = onnx::disagreement(vector, value, found[o]); !problem.empty()) {
        expected.outputs[o].rule = Rule::unset;
        expected.outputs[o].problem = std::move(problem);
      }
    }
  };
}

std::vector<quern_dtype> dtypes_of(const Case& c) {
  std::vector<quern_dtype> dtypes;
  for (const auto* list : {&c.inputs, &c.outputs})
    for (const ValueSpec& v : *list) dtypes.push_back(v.dtype);
  return dtypes;
}

/// A family's reference for a node that has fewer operands: those left out come as absent, as the family's own cases have them.
Reference with_all_operands(Reference reference, std::size_t inputs, std::size_t outputs) {
  return [=](const ReferenceCall& call, Expected& expected) {
    Case what = call.what;
    std::vector<Tensor> given = call.inputs, states = call.states;
    const std::size_t had = expected.outputs.size();
    what.inputs.resize(std::max(inputs, what.inputs.size()), absent());
    given.resize(what.inputs.size());
    what.outputs.resize(std::max(outputs, what.outputs.size()), absent());
    states.resize(what.outputs.size());
    expected.outputs.resize(what.outputs.size());
    reference({what, given, states}, expected);
    expected.outputs.resize(had);
  };
}

/// Whether an op takes any number of inputs, so that none is left out.
bool is_variadic(std::uint32_t op) {
  switch (op) {
#define QUERN_OP(id, NAME, name, group, inputs, ...) \
  case id: \
    return *inputs == '*';
#include "quern/ops.def"
#undef QUERN_OP
    default: return false;
  }
}

/// What the families have for an op: one entry for each list of dtypes, in the order of the cases.
class Families {
 public:
  struct Entry {
    std::vector<quern_dtype> dtypes;
    Reference reference;
    int level;
  };
  explicit Families(const std::vector<Case>& cases) {
    for (const Case& c : cases) {
      if (c.script || c.graph || c.group == "onnx" || c.predicated) continue;
      std::vector<Entry>& list = entries_[c.op];
      auto& [inputs, outputs] = most_[c.op];
      if (!is_variadic(c.op)) inputs = std::max(inputs, c.inputs.size());
      outputs = std::max(outputs, c.outputs.size());
      std::vector<quern_dtype> dtypes = dtypes_of(c);
      const bool known = std::ranges::any_of(list, [&](const Entry& e) { return e.dtypes == dtypes; });
      if (!known) list.push_back({std::move(dtypes), c.reference, c.level});
    }
  }
  /// The entry of the node's dtypes, else the first of its op; null if no family has the op.
  const Entry* find(const Case& node) const {
    const auto at = entries_.find(node.op);
    if (at == entries_.end()) return nullptr;
    const auto same = std::ranges::find(at->second, dtypes_of(node), &Entry::dtypes);
    return same == at->second.end() ? &at->second.front() : &*same;
  }
  Reference reference(std::uint32_t op, const Entry& entry) const {
    const auto& [inputs, outputs] = most_.at(op);
    return with_all_operands(entry.reference, inputs, outputs);
  }

 private:
  std::unordered_map<std::uint32_t, std::pair<std::size_t, std::size_t>> most_;  // operands that the cases of an op list
  std::unordered_map<std::uint32_t, std::vector<Entry>> entries_;
};

void add(CaseSink& sink, const Families& families, const onnx::Vector& vector) {
  int level = level_inference;  // level 1 names no graph and none of these shapes
  onnx::References references;
  for (std::size_t n = 0; n < vector.nodes.size(); ++n) {
    const Families::Entry* entry = families.find(onnx::node_case(vector, n));
    if (entry == nullptr) return;
    level = std::max(level, entry->level);
    references.push_back(families.reference(vector.nodes[n].op, *entry));
  }
  if (vector.nodes.size() > 1)
    return sink.add_script("onnx.graph." + vector.name, "onnx", Profile::quick, level,
                           [&vector, references](ScriptContext& t) { onnx::run_graph(t, vector, references); });
  Case c = onnx::node_case(vector, 0);
  c.group = "onnx";
  c.profile = Profile::quick;
  c.level = level;
  c.note = vector.name;
  c.reference = checked(vector, references[0]);
  sink.add(std::move(c));
}

void generate(CaseSink& sink) {
  const Families families(sink.cases());
  for (const onnx::Vector& vector : onnx::vectors()) add(sink, families, vector);
}

}  // namespace

std::vector<onnx::References> onnx_references(const std::vector<Case>& cases) {
  const Families families(cases);
  std::vector<onnx::References> all;
  for (const onnx::Vector& vector : onnx::vectors()) {
    onnx::References references;
    for (std::size_t n = 0; n < vector.nodes.size(); ++n)
      if (const Families::Entry* entry = families.find(onnx::node_case(vector, n)))
        references.push_back(families.reference(vector.nodes[n].op, *entry));
    all.push_back(references.size() == vector.nodes.size() ? std::move(references) : onnx::References());
  }
  return all;
}

extern const Family onnx_family;
const Family onnx_family = {"onnx", generate};

}  // namespace quern::conformance
