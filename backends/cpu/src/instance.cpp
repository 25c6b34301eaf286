// Bounds, bindings and views of an instance. What happens in a run is in run.cpp.
#include "plan.hpp"

#include "abi_list.hpp"

#include "quern/quern_min_sizes.h"

#include <algorithm>

namespace quern::cpu {
namespace {

/// Dims of a value when the symbols have these values.
void set_dims(const Value& value, const std::vector<std::int64_t>& extents, TensorView& view) noexcept {
  for (std::uint32_t d = 0; d < view.rank; ++d)
    if (value.symbols[d] != 0) view.dims[d] = extents[value.symbols[d] - 1];
}

std::string slot_name(const Graph& graph, std::uint32_t id) {
  const std::string& name = graph.values[id].name;
  return concat("value ", id, name.empty() ? "" : " ", name);
}

}  // namespace

Instance::Instance(const Plan& plan) : plan_(plan) {
  const Graph& graph = plan.graph;
  for (const Symbol& symbol : graph.symbols) bounds_.push_back(symbol.max);
  extents_ = wanted_ = bounds_;
  for (const Value& value : graph.values) views_.push_back(value.view);
  call_views_.resize(graph.nodes.size());
  calls_.reserve(graph.nodes.size());
  for (std::size_t n = 0; n < call_views_.size(); ++n)
    calls_.push_back(describe_call(graph, graph.nodes[n], plan.policy.thread_count, plan.policy.deterministic, call_views_[n]));
}

void Instance::set_bounds(const quern_array& bounds) {
  const List<quern_bound> list(bounds, QUERN_MIN_SIZE_quern_bound, "instance_options.bounds");
  for (std::uint64_t i = 0; i < list.size(); ++i) {
    const quern_bound bound = list[i];
    if (bound.symbol >= bounds_.size())
      throw Error(QUERN_INVALID_ARGUMENT, concat("a bound is for symbol ", bound.symbol, ", the graph has ", bounds_.size()));
    const Symbol& symbol = plan_.graph.symbols[bound.symbol];
    if (bound.upper < symbol.min || bound.upper > symbol.max)
      throw Error(QUERN_INVALID_ARGUMENT,
                  concat("the bound of symbol ", bound.symbol, " is ", bound.upper, ", it ranges from ", symbol.min, " to ", symbol.max));
    bounds_[bound.symbol] = bound.upper;
  }
  extents_ = bounds_;
  for (std::size_t id = 0; id < views_.size(); ++id) set_dims(plan_.graph.values[id], bounds_, views_[id]);
  layout_ = layout_scratch(plan_, views_);
}

Binding Instance::check_binding(const quern_array& bindings, const quern_span& scratch) const {
  const Graph& graph = plan_.graph;
  Binding result;
  std::vector<std::byte*>& addresses = result.addresses;
  addresses.assign(graph.values.size(), nullptr);
  std::vector<char> given(graph.values.size(), 0);
  std::vector<TensorView> at_bounds = views_;
  for (std::size_t id = 0; id < at_bounds.size(); ++id) set_dims(graph.values[id], bounds_, at_bounds[id]);

  const List<quern_binding> list(bindings, QUERN_MIN_SIZE_quern_binding, "prepare_entry.bindings");
  for (std::uint64_t i = 0; i < list.size(); ++i) {
    const quern_binding binding = read_struct<quern_binding>(list.address(i), QUERN_TYPE_BINDING, QUERN_MIN_SIZE_quern_binding, "binding");
    const std::uint32_t id = binding.value;
    if (id >= graph.values.size()) throw Error(QUERN_INVALID_ARGUMENT, concat("a binding is for value ", id, " of ", graph.values.size()));
    const std::string name = slot_name(graph, id);
    if (graph.values[id].kind == QUERN_VALUE_INTERNAL)
      throw Error(QUERN_INVALID_ARGUMENT, concat(name, " is internal; it is not bound"), QUERN_NONE, id);
    if (given[id]) throw Error(QUERN_INVALID_ARGUMENT, concat(name, " is bound twice"), QUERN_NONE, id);
    if (binding.flags != 0) throw Error(QUERN_UNSUPPORTED, concat(name, ": unknown binding flags ", binding.flags), QUERN_NONE, id);
    const List<quern_span> spans(binding.spans, QUERN_MIN_SIZE_quern_span, "binding.spans");
    if (spans.size() != 1)
      throw Error(QUERN_INVALID_ARGUMENT, concat(name, " is bound to ", spans.size(), " spans; it needs one"), QUERN_NONE, id);
    const quern_span span = spans[0];
    const std::uint64_t needed = view_bytes(at_bounds[id]);
    if (span.buffer != nullptr)
      throw Error(QUERN_INVALID_ARGUMENT, concat(name, " is bound to a device buffer; this device takes host memory"), QUERN_NONE, id);
    if (span.host == nullptr && needed > 0)
      throw Error(QUERN_INVALID_ARGUMENT, concat(name, " is bound to null; it has ", needed, " bytes"), QUERN_NONE, id);
    if (span.bytes < needed)
      throw Error(QUERN_INVALID_ARGUMENT, concat(name, " is bound to ", span.bytes, " bytes; it needs ", needed), QUERN_NONE, id);
    if (reinterpret_cast<std::uintptr_t>(span.host) % span_alignment != 0 && graph.values[id].root == id)
      throw Error(QUERN_INVALID_ARGUMENT, concat(name, " is not aligned to ", span_alignment, " bytes"), QUERN_NONE, id);
    addresses[id] = static_cast<std::byte*>(span.host);
    given[id] = 1;
  }
  if (scratch.buffer != nullptr) throw Error(QUERN_INVALID_ARGUMENT, "scratch is a device buffer; this device takes host memory");
  if (layout_.bytes > 0 && (scratch.host == nullptr || scratch.bytes < layout_.bytes))
    throw Error(QUERN_INVALID_ARGUMENT,
                concat("scratch has ", scratch.host == nullptr ? 0 : scratch.bytes, " bytes; the instance needs ", layout_.bytes));
  if (reinterpret_cast<std::uintptr_t>(scratch.host) % span_alignment != 0)
    throw Error(QUERN_INVALID_ARGUMENT, concat("scratch is not aligned to ", span_alignment, " bytes"));
  auto* base = static_cast<std::byte*>(scratch.host);
  for (std::uint32_t id = 0; id < graph.values.size(); ++id) {
    const Value& value = graph.values[id];
    if (value.root == id && value.kind == QUERN_VALUE_INTERNAL)
      addresses[id] = base == nullptr || plan_.memoryless[id] ? nullptr : base + layout_.offsets[id];
    else if (value.root == id && !given[id])
      throw Error(QUERN_INVALID_ARGUMENT, concat(slot_name(graph, id), " is not bound"), QUERN_NONE, id);
  }
  for (std::uint32_t id = 0; id < graph.values.size(); ++id) {  // an alias with memory of its own lies there, others in their root
    const Value& value = graph.values[id];
    if (value.root != id && !given[id] && addresses[value.root] != nullptr) addresses[id] = addresses[value.root] + value.root_offset;
  }
  result.scratch = base;
  return result;
}

void Instance::bind(const Binding& binding) noexcept {
  for (std::size_t id = 0; id < views_.size(); ++id) views_[id].data = binding.addresses[id];
  scratch_ = binding.scratch;
  bound_ = true;
  runs_ = patch_bytes_ = 0;
  refresh_views();
}

void Instance::refresh_views() noexcept {
  const Graph& graph = plan_.graph;
  for (std::size_t id = 0; id < views_.size(); ++id) set_dims(graph.values[id], extents_, views_[id]);
  for (std::size_t n = 0; n < calls_.size(); ++n) {
    std::size_t at = 0;
    for (const auto* ids : {&graph.nodes[n].inputs, &graph.nodes[n].outputs})
      for (const std::uint32_t id : *ids) {
        if (id != QUERN_NONE) call_views_[n][at] = views_[id];
        ++at;
      }
    if (graph.nodes[n].row_predicate) calls_[n].predicate = views_[graph.nodes[n].predicate];
  }
}

quern_counters Instance::counters() const noexcept {
  quern_counters counters{};
  counters.runs = runs_;
  counters.host_copies = patch_bytes_;
  return counters;
}

}  // namespace quern::cpu
