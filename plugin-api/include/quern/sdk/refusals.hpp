// Why a plugin answers "no", in the words that users read in the report, and the checks that every plugin makes.
//
// refuse_unknown() holds what rules C3 and C4 refuse (an unknown op, revision or bit); a plugin adds
// what it cannot compute itself. Part of the plugin SDK (include quern/quern_plugin.hpp); C++17, not part of the ABI.
#ifndef QUERN_SDK_REFUSALS_HPP
#define QUERN_SDK_REFUSALS_HPP

#include "quern/sdk/graph.hpp"

#include <mutex>
#include <set>

namespace quern {
namespace sdk {

/// Owns the texts of answers and infos: they live as long as the plugin handle. One text is kept once. Thread-safe.
class Texts {
 public:
  quern_string keep(std::string text) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return text_of(*kept_.insert(std::move(text)).first);
  }

 private:
  std::mutex mutex_;
  std::set<std::string> kept_;  // a node of a set does not move
};

/// The standard texts. Empty means: no reason to refuse.
namespace refusal {

inline std::string op(std::uint32_t id) {
  const OpRow* row = find_op(id);
  return row != nullptr ? concat("this plugin has no ", row->name)
                        : concat("op ", id, " is newer than the op set ", QUERN_OPSET_VERSION, " of this plugin");
}
inline std::string revision(std::string_view op_name, std::uint32_t wanted, std::uint32_t known) {
  return concat(op_name, " is asked for in revision ", wanted, ", this plugin knows up to ", known);
}
inline std::string collectives() { return "this plugin runs on one device and has no collectives"; }
inline std::string indirect_spans() { return "this plugin cannot read span addresses from device memory"; }
inline std::string snapshots() { return "this plugin cannot copy state aside, so it takes no state that needs it to roll back"; }
inline std::string composite() { return "this plugin claims no composites; its body may be claimed node by node"; }
inline std::string layout() { return "this plugin has no packed layouts; bind the canonical one"; }
inline std::string strides(std::string_view name) { return concat("'", name, "' is strided and this kernel needs contiguous memory"); }
inline std::string format(std::string_view name) { return concat("'", name, "' is quantised and this kernel reads floats only"); }
inline std::string dtype(std::string_view name, quern_dtype found, std::string_view wanted) {
  return concat("'", name, "' is ", dtype_name(found), "; ", wanted, " is taken");
}
inline std::string accumulate() { return "this plugin accumulates in f32 only"; }
inline std::string shape(std::string_view name, std::string_view found, std::string_view wanted) {
  return concat("'", name, "' has shape ", found, ", this kernel needs ", wanted);
}

}  // namespace refusal

inline std::string unknown_bit(const char* what, std::uint64_t bits, std::uint64_t known) {
  for (unsigned bit = 0; bit < 64; ++bit) {
    if (((bits & ~known) >> bit & 1u) != 0) return concat(what, " uses bit ", bit, ", which is newer than this plugin");
  }
  return {};
}

/// What no plugin built from these headers may pass over: an op, a revision or a bit that it cannot know. `revision` is
/// the highest that the plugin computes.
inline std::string refuse_unknown(const Graph& graph, const Node& node, std::uint32_t revision = 1) {
  const OpRow* op = find_op(node.fields.op);
  if (op == nullptr) return refusal::op(node.fields.op);
  if (node.fields.op_revision > revision) return refusal::revision(op->name, node.fields.op_revision, revision);
  std::string text = unknown_bit("the node", node.fields.uses, QUERN_NODE_USES_ALL);
  const auto look = [&](std::uint32_t v) {
    if (v != QUERN_NONE && text.empty()) text = unknown_bit("a value", graph.values[v].uses, QUERN_VALUE_USES_ALL);
  };
  for (const std::uint32_t v : node.inputs) look(v);
  for (const std::uint32_t v : node.outputs) look(v);
  if (text.empty() && (node.fields.uses & QUERN_NODE_USES_PREDICATE) != 0) look(node.fields.predicate);
  return text;
}

/// Further: what a plugin does not offer, each with its standard text, for the value `uses` and node `uses` bits that
/// are not in the given masks.
inline std::string refuse_features(const Graph& graph, const Node& node, std::uint64_t value_uses, std::uint64_t node_uses) {
  const std::uint64_t n = node.fields.uses & ~node_uses;
  if ((n & QUERN_NODE_USES_COMMUNICATOR) != 0) return refusal::collectives();
  if ((n & QUERN_NODE_USES_BODY) != 0) return refusal::composite();
  if ((n & QUERN_NODE_USES_PREDICATE) != 0) return "this plugin has no predicated writes";
  if ((n & QUERN_NODE_USES_PRECISION) != 0) return "this plugin computes in its default precision only";
  if ((n & QUERN_NODE_USES_DETERMINISM) != 0) return "this plugin promises no determinism";
  if ((n & QUERN_NODE_USES_REGION) != 0) return "this plugin does not keep recomputation regions apart";
  std::string text;
  const auto look = [&](std::uint32_t v) {
    if (v == QUERN_NONE || !text.empty()) return;
    const std::uint64_t u = graph.values[v].uses & ~value_uses;
    const std::string& name = graph.value_names[v];
    if ((u & QUERN_VALUE_USES_INDIRECT) != 0) text = refusal::indirect_spans();
    else if ((u & QUERN_VALUE_USES_SNAPSHOT) != 0) text = refusal::snapshots();
    else if ((u & QUERN_VALUE_USES_LAYOUT) != 0) text = refusal::layout();
    else if ((u & QUERN_VALUE_USES_STRIDES) != 0) text = refusal::strides(name);
    else if ((u & QUERN_VALUE_USES_FORMAT) != 0) text = refusal::format(name);
    else if ((u & QUERN_VALUE_USES_SYMBOLS) != 0) text = concat("'", name, "' has ranged dimensions");
    else if ((u & QUERN_VALUE_USES_ALIAS) != 0) text = concat("'", name, "' is a view of other memory");
    else if ((u & QUERN_VALUE_USES_DATA) != 0) text = concat("'", name, "' is given by value");
  };
  for (const std::uint32_t v : node.inputs) look(v);
  for (const std::uint32_t v : node.outputs) look(v);
  if ((node.fields.uses & QUERN_NODE_USES_PREDICATE) != 0) look(node.fields.predicate);
  return text;
}

}  // namespace sdk
}  // namespace quern

#endif
