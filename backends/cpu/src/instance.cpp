// What an instance binds, and its runs: patches, extents, then the steps in order. A run allocates nothing.
#include "backend.hpp"
#include "openblas.hpp"

#include <algorithm>
#include <cstring>

namespace quern::cpu {

Instance::Instance(const Plan& plan, const Device& device)
    : plan_(plan), pool_(device.pool), bounds_(plan.graph), extents_(bounds_.bounds()) {
  const Graph& graph = plan.graph;
  for (const sdk::ResolvedValue& value : graph.values) views_.push_back(value.tensor);
  call_views_.resize(graph.nodes.size());
  calls_.reserve(graph.nodes.size());
  for (std::size_t n = 0; n < call_views_.size(); ++n)
    calls_.push_back(describe_call(graph, graph.nodes[n], plan.policy.thread_count, plan.policy.deterministic, call_views_[n]));
}

std::uint64_t Instance::kernel_scratch(const Step& step) const {
  if (step.fusion != nullptr) return step.fusion->scratch == nullptr ? 0 : step.fusion->scratch({calls_.data() + step.first, step.count});
  const Kernel& kernel = *plan_.kernels[step.first];
  return kernel.scratch == nullptr ? 0 : kernel.scratch(calls_[step.first]);
}

std::uint64_t Instance::scratch_bytes() {
  if (laid_out_) return layout_.bytes;
  const Graph& graph = plan_.graph;
  extents_ = bounds_.bounds();
  refresh_views();
  std::vector<sdk::StepMemory> steps;
  for (const Step& step : plan_.steps) {
    // A step reads and writes all along: what one of its nodes touches lives through all of it.
    sdk::StepMemory& memory = steps.emplace_back();
    const auto touch = [&](std::uint32_t id) {
      if (id != QUERN_NONE && !plan_.memoryless[graph.values[id].root]) memory.values.push_back(id);
    };
    for (std::uint32_t n = step.first; n < step.first + step.count; ++n) {
      std::ranges::for_each(graph.nodes[n].inputs, touch);
      std::ranges::for_each(graph.nodes[n].outputs, touch);
      touch(graph.nodes[n].predicate);
    }
    memory.scratch = kernel_scratch(step);
  }
  layout_ = sdk::lay_out_scratch(graph, steps, {}, span_alignment, [this](std::uint32_t id) { return bounds_.needed(id); });
  laid_out_ = true;
  return layout_.bytes;
}

void Instance::prepare(sdk::BoundPlaces places) noexcept {
  const Graph& graph = plan_.graph;
  if (plan_.uses_openblas) reserve_openblas(plan_.policy.thread_count);
  scratch_ = reinterpret_cast<std::byte*>(places.scratch);
  for (std::uint32_t id = 0; id < views_.size(); ++id) {
    const sdk::ResolvedValue& value = graph.values[id];
    if (!graph.internal(value.root)) views_[id].data = places.of[id];
    else if (scratch_ == nullptr || plan_.memoryless[value.root]) views_[id].data = 0;
    else views_[id].data = places.scratch + layout_.value_offset[value.root] + value.offset;
  }
  bound_ = true;
  runs_ = patch_bytes_ = 0;
  refresh_views();
}

void Instance::refresh_views() noexcept {
  const Graph& graph = plan_.graph;
  for (std::uint32_t id = 0; id < views_.size(); ++id)
    for (std::uint32_t d = 0; views_[id].ranged >> d != 0; ++d) views_[id].dims[d] = graph.source.extent(id, d, extents_);
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

bool Instance::predicate_is_zero(const Node& node) const noexcept {
  return node.predicate != QUERN_NONE && !node.row_predicate && load_integer(views_[node.predicate], 0) == 0;
}

/// Sets how the run ended.
void Instance::run_nodes() noexcept {
  Context context(pool_, scratch_ == nullptr ? nullptr : scratch_ + layout_.scratch_offset, layout_.bytes - layout_.scratch_offset,
                  tiles_from(plan_.policy.force), faults_, cancelled_);
  const auto cancelled = [this] { return cancelled_.load(std::memory_order_relaxed) != 0; };
  code_ = QUERN_CANCELLED;
  for (const Step& step : plan_.steps) {
    failed_ = step.first;
    if (cancelled()) return;
    if (step.fusion != nullptr) {  // its nodes have no predicate
      step.fusion->run({calls_.data() + step.first, step.count}, context);
      continue;
    }
    if (predicate_is_zero(plan_.graph.nodes[step.first])) continue;
    const Call& call = calls_[step.first];
    if (std::ranges::all_of(call.outputs, [](const Tensor& y) { return !y.present() || y.elements() == 0; })) continue;
    plan_.kernels[step.first]->run(call, context);
  }
  if (cancelled()) return;
  code_ = QUERN_OK;
  failed_ = QUERN_NONE;
}

bool Instance::start(const quern_run& run) {
  faults_.store(0, std::memory_order_relaxed);
  ++runs_;
  for (const quern_patch& patch : sdk::List<quern_patch>(run.patches, "patches"))
    if (patch.bytes > 0) std::memcpy(bytes_of(views_[patch.value]) + patch.offset, patch.data, patch.bytes);
  patch_bytes_ += bounds_.patch_bytes();
  bounds_.read_extents([this](std::uint32_t id) {
    std::int32_t exact = 0;
    std::memcpy(&exact, bytes_of(views_[id]), sizeof(exact));
    return exact;
  });
  if (bounds_.extents() != extents_) {
    std::ranges::copy(bounds_.extents(), extents_.begin());
    refresh_views();
  }
  run_nodes();
  return false;
}

void Instance::finish(const quern_run&, quern_run_status& outcome) const noexcept {
  outcome.code = code_;
  outcome.node = failed_;
  outcome.op = failed_ == QUERN_NONE ? 0 : op_of(failed_);
  outcome.faults = faults_.load(std::memory_order_relaxed);
}

quern_counters Instance::counters() const noexcept {
  quern_counters counters{};
  counters.runs = runs_;
  counters.host_copies = patch_bytes_;
  return counters;
}

}  // namespace quern::cpu
