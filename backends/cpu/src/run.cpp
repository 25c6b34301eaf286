// One run: patches, extents, then the steps in order. Nothing here allocates or throws.
#include "abi_list.hpp"
#include "plan.hpp"

#include "quern/quern_min_sizes.h"

#include <algorithm>
#include <cstring>

namespace quern::cpu {

void Instance::check_run(const quern_run& run) const {
  if (!bound_) throw Error(QUERN_INVALID_ARGUMENT, "the instance of a run was not prepared");
  if (run.flags != 0) throw Error(QUERN_UNSUPPORTED, concat("unknown run flags ", run.flags));
  if (run.sync != nullptr) {
    const quern_sync sync = read_struct<quern_sync>(run.sync, QUERN_TYPE_SYNC, QUERN_MIN_SIZE_quern_sync, "run.sync");
    if (sync.wait.count != 0 || sync.signal.count != 0)
      throw Error(QUERN_INVALID_ARGUMENT, "a run names fences; this device is synchronous, the host keeps its fences");
  }
  if (run.status != nullptr) check_header(run.status->header, QUERN_TYPE_RUN_STATUS, QUERN_MIN_SIZE_quern_run_status, "run.status");
  const List<quern_bound> bounds(run.bounds, QUERN_MIN_SIZE_quern_bound, "run.bounds");
  for (std::uint64_t i = 0; i < bounds.size(); ++i) {
    const quern_bound bound = bounds[i];
    if (bound.symbol >= bounds_.size())
      throw Error(QUERN_INVALID_ARGUMENT, concat("a run bounds symbol ", bound.symbol, " of ", bounds_.size()));
    if (bound.upper < plan_.graph.symbols[bound.symbol].min || bound.upper > bounds_[bound.symbol])
      throw Error(QUERN_INVALID_ARGUMENT, concat("a run bounds symbol ", bound.symbol, " by ", bound.upper, "; the instance allows ",
                                                 plan_.graph.symbols[bound.symbol].min, " to ", bounds_[bound.symbol]));
  }
  const List<quern_patch> patches(run.patches, QUERN_MIN_SIZE_quern_patch, "run.patches");
  for (std::uint64_t i = 0; i < patches.size(); ++i) {
    const quern_patch patch = patches[i];
    if (patch.value >= views_.size())
      throw Error(QUERN_INVALID_ARGUMENT, concat("patch ", i, " is for value ", patch.value, " of ", views_.size()));
    const Value& value = plan_.graph.values[patch.value];
    if (value.kind != QUERN_VALUE_STATE && value.kind != QUERN_VALUE_INPUT)
      throw Error(QUERN_INVALID_ARGUMENT, concat("patch ", i, " is for value ", patch.value, ", which is neither state nor input"),
                  QUERN_NONE, patch.value);
    TensorView view = value.view;
    for (std::uint32_t d = 0; d < view.rank; ++d)
      if (value.symbols[d] != 0) view.dims[d] = bounds_[value.symbols[d] - 1];
    const std::uint64_t bytes = view_bytes(view);
    if (patch.offset > bytes || patch.bytes > bytes - patch.offset || (patch.data == nullptr && patch.bytes > 0))
      throw Error(QUERN_INVALID_ARGUMENT,
                  concat("patch ", i, " writes bytes ", patch.offset, " + ", patch.bytes, " of value ", patch.value, ", which has ", bytes),
                  QUERN_NONE, patch.value);
  }
}

/// Sets `wanted_` from the run's bounds and the extents that lie in memory. False if one of these is out of range.
bool Instance::read_extents(const quern_run& run) noexcept {
  std::copy(bounds_.begin(), bounds_.end(), wanted_.begin());
  for (std::uint64_t i = 0; i < run.bounds.count; ++i) {
    quern_bound bound;
    std::memcpy(&bound, static_cast<const char*>(run.bounds.data) + i * run.bounds.stride, sizeof(bound));
    wanted_[bound.symbol] = bound.upper;
  }
  for (std::size_t s = 0; s < wanted_.size(); ++s) {
    const std::uint32_t extent = plan_.graph.symbols[s].extent;
    if (extent == QUERN_NONE) continue;
    std::int32_t exact = 0;
    std::memcpy(&exact, views_[extent].data, sizeof(exact));
    if (exact < 0 || exact > wanted_[s]) return false;
    wanted_[s] = exact;
  }
  return true;
}

bool Instance::predicate_is_zero(const Node& node) const noexcept {
  return node.predicate != QUERN_NONE && !node.row_predicate && load_integer(views_[node.predicate], 0) == 0;
}

quern_status Instance::run_nodes(ThreadPool& pool, std::uint32_t& failed) noexcept {
  Context context(pool, scratch_ == nullptr ? nullptr : scratch_ + layout_.kernel_offset, layout_.kernel_bytes,
                  tiles_from(plan_.policy.force), faults_, cancelled_);
  for (const Step& step : plan_.steps) {
    failed = step.first;
    if (cancelled_.load(std::memory_order_relaxed) != 0) return QUERN_CANCELLED;
    if (step.fusion != nullptr) {  // its nodes have no predicate
      step.fusion->run({calls_.data() + step.first, step.count}, context);
      continue;
    }
    if (predicate_is_zero(plan_.graph.nodes[step.first])) continue;
    const OpCall& call = calls_[step.first];
    if (std::ranges::all_of(call.outputs, [](const TensorView& y) { return !y.present() || element_count(y) == 0; })) continue;
    plan_.kernels[step.first]->run(call, context);
  }
  if (cancelled_.load(std::memory_order_relaxed) != 0) return QUERN_CANCELLED;
  failed = QUERN_NONE;
  return QUERN_OK;
}

void Instance::execute(const quern_run& run, ThreadPool& pool) noexcept {
  cancelled_.store(0, std::memory_order_relaxed);
  faults_.store(0, std::memory_order_relaxed);
  for (std::uint64_t i = 0; i < run.patches.count; ++i) {
    quern_patch patch;
    std::memcpy(&patch, static_cast<const char*>(run.patches.data) + i * run.patches.stride, sizeof(patch));
    if (patch.bytes > 0) std::memcpy(views_[patch.value].data + patch.offset, patch.data, patch.bytes);
    patch_bytes_ += patch.bytes;
  }
  std::uint32_t failed = QUERN_NONE;
  quern_status code = QUERN_INVALID_ARGUMENT;  // an extent in memory beyond the run's bound
  std::uint32_t rule = 11;
  if (read_extents(run)) {
    rule = 0;
    if (wanted_ != extents_) {
      std::copy(wanted_.begin(), wanted_.end(), extents_.begin());
      refresh_views();
    }
    code = run_nodes(pool, failed);
  }
  ++runs_;
  if (run.status == nullptr) return;
  run.status->code = code;
  run.status->node = failed;
  run.status->op = failed == QUERN_NONE ? 0 : plan_.graph.nodes[failed].op;
  run.status->rule = rule;
  run.status->faults = faults_.load(std::memory_order_relaxed);
}

}  // namespace quern::cpu
