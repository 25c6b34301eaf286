// What goes wrong in long and full sessions only: the hundredth run, the fifth of a list, the plan behind the 128th, faults that stick.
#include "plugin.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>

namespace quern::mutant {
namespace {

constexpr std::size_t most_predicates = 64, most_patches = 64;
constexpr std::uint64_t most_patch_bytes = 16384;

std::span<const NodeCopy> nodes_of(const quern_instance& instance) {
  return instance.plan->graph ? std::span<const NodeCopy>(instance.plan->graph->nodes) : std::span<const NodeCopy>();
}

/// Flips the lowest bit of the first output of `op` (0: any op) that lies in the host's memory.
void flip_output(const quern_instance& instance, std::uint32_t op) {
  for (const NodeCopy& node : nodes_of(instance)) {
    if ((op != 0 && node.fields.op != op) || node.output(0) == QUERN_NONE) continue;
    if (std::byte* const at = instance.host_memory(node.output(0)); at != nullptr) {
      *at ^= std::byte{1};
      return;
    }
  }
}

/// Predicates as they would be if only some of their bits counted; as they were at the end, unless a patch changed them meanwhile.
class MaskedPredicates {
 public:
  MaskedPredicates(const quern_instance& instance, std::uint32_t mask, bool rows_only) {
    if (mask == ~0u) return;
    for (const NodeCopy& node : nodes_of(instance)) {
      if ((node.fields.uses & QUERN_NODE_USES_PREDICATE) == 0) continue;
      std::byte* const at = instance.host_memory(node.fields.predicate);
      const quern_value& value = instance.plan->graph->values[node.fields.predicate];
      if (at == nullptr || value.rank != 1 || (rows_only && value.dims[0] == 1)) continue;
      for (std::int64_t i = 0; i < value.dims[0] && count_ < most_predicates; ++i) hide(at + 4 * i, mask);
    }
  }
  ~MaskedPredicates() {
    while (count_ > 0) {
      const Hidden& h = hidden_[--count_];
      if (std::memcmp(h.at, &h.seen, 4) == 0) std::memcpy(h.at, &h.value, 4);
    }
  }
  MaskedPredicates(const MaskedPredicates&) = delete;
  MaskedPredicates& operator=(const MaskedPredicates&) = delete;

 private:
  void hide(std::byte* at, std::uint32_t mask) {
    Hidden& h = hidden_[count_++];
    h.at = at;
    std::memcpy(&h.value, at, 4);
    h.seen = h.value & mask;
    std::memcpy(at, &h.seen, 4);
  }
  struct Hidden {
    std::byte* at;
    std::uint32_t value, seen;
  } hidden_[most_predicates];
  std::size_t count_ = 0;
};

std::uint32_t predicate_mask(Behaviour behaviour) {
  switch (behaviour) {
    case Behaviour::lowest_bit_of_predicates: return 1;
    case Behaviour::low_byte_of_predicates:
    case Behaviour::low_byte_of_row_predicates: return 0xff;
    default: return ~0u;
  }
}

quern_patch cut(quern_patch patch) {
  patch.bytes = std::min(patch.bytes, most_patch_bytes);
  return patch;
}

bool computes_wrong(const quern_device& device, const quern_instance& instance, std::size_t index, std::size_t count) {
  const std::uint32_t alive = device.plans;
  switch (device.plugin->behaviour()) {
    case Behaviour::wrong_after_100_runs: return instance.runs >= 100;
    case Behaviour::wrong_at_run_1000: return instance.runs == 1000;
    case Behaviour::wrong_in_lists: return count >= 8 && index == 4;
    case Behaviour::plans_over_300_nodes: return nodes_of(instance).size() > 300;
    case Behaviour::plans_over_128_alive: return instance.plan->number > 128;
    case Behaviour::first_of_many_plans: return alive > 128 && instance.plan->number == 1;
    default: return false;
  }
}

void spoil_told(quern_device& device, quern_instance& instance, const quern_run_status& before, quern_run_status& status) {
  switch (device.plugin->behaviour()) {
    case Behaviour::sticky_faults: status.faults = instance.faults |= status.faults; return;
    case Behaviour::sticky_device_faults: status.faults = device.faults |= status.faults; return;
    case Behaviour::status_names_first_node:
      if (status.code != QUERN_OK) status.node = 0, status.op = nodes_of(instance).empty() ? 0 : nodes_of(instance)[0].fields.op;
      return;
    case Behaviour::status_left_as_it_was:
      if (status.code == QUERN_OK) status.node = before.node, status.op = before.op, status.rule = before.rule;
      return;
    default: return;
  }
}

}  // namespace

bool is_of_sessions(Behaviour behaviour) noexcept {
  return behaviour >= Behaviour::wrong_after_100_runs && behaviour <= Behaviour::status_left_as_it_was;
}

quern_status run_in_session(quern_device& device, quern_queue* queue, quern_run run, std::size_t index, std::size_t count,
                            quern_error* error) {
  const Behaviour behaviour = device.plugin->behaviour();
  quern_instance& instance = *run.instance;
  run.header.struct_size = std::min<std::uint32_t>(run.header.struct_size, sizeof run);
  run.instance = instance.under;
  const quern_run_status before = run.status == nullptr ? quern_run_status{} : *run.status;
  if (behaviour == Behaviour::lost_in_lists && count > 16 && index + 1 == count) return QUERN_OK;
  if (behaviour == Behaviour::patches_over_64_lost) run.patches.count = std::min<std::uint64_t>(run.patches.count, most_patches);
  quern_patch patch{};
  if (behaviour == Behaviour::patches_end_at_16_kib && run.patches.count == 1) {
    patch = cut(*static_cast<const quern_patch*>(run.patches.data));
    run.patches = {&patch, 1, sizeof patch};
  }
  {
    const MaskedPredicates masked(instance, predicate_mask(behaviour), behaviour == Behaviour::low_byte_of_row_predicates);
    const quern_array one{&run, 1, sizeof run};
    if (const quern_status status = device.plugin->api().submit(device.under, queue, &one, error); status != QUERN_OK) return status;
  }
  if (computes_wrong(device, instance, index, count))
    flip_output(instance, behaviour == Behaviour::wrong_after_100_runs || behaviour == Behaviour::wrong_at_run_1000 ? QUERN_OP_MATMUL : 0);
  if (run.status != nullptr) spoil_told(device, instance, before, *run.status);
  ++instance.runs;
  return QUERN_OK;
}

void tell_of_plan(const quern_plan& plan, quern_plan_info& info) {
  static const quern_kernel_info first = [] {
    auto kernel = sdk::made<quern_kernel_info>();
    kernel.name = sdk::text_of("mutant.kernel");
    kernel.node_count = 1;
    return kernel;
  }();
  switch (plan.device->plugin->behaviour()) {
    case Behaviour::constant_numerics_key: info.numerics_key = 1; return;
    case Behaviour::numerics_key_of_ops:
      info.numerics_key = 1;
      for (const NodeCopy& node : plan.graph->nodes) info.numerics_key = info.numerics_key * 1000003 + node.fields.op;
      return;
    case Behaviour::one_launch: info.launches = 1; return;
    case Behaviour::kernels_of_first_node:
      if (info.kernels.count > 0) info.kernels = {&first, info.kernels.count, 0};
      return;
    default: return;
  }
}

/// A list of schedules with one mistake in its first.
void tell_of_schedules(const quern_plan& plan, quern_plan_info& info) {
  const Behaviour behaviour = plan.device->plugin->behaviour();
  if (behaviour < Behaviour::schedule_without_its_last_kernel || behaviour > Behaviour::alone_beyond_the_graph) return;
  if (!QUERN_SDK_HAS(&info, schedules) || info.schedules.count == 0) return;
  plan.told.clear();
  for (const quern_schedule_info& schedule : sdk::List<quern_schedule_info>(info.schedules, "schedules")) plan.told.push_back(schedule);
  quern_schedule_info& first = plan.told.front();
  plan.told_alone = sdk::made<quern_alone_info>();
  plan.told_alone.reason = sdk::text_of("it stands where it stands");
  if (behaviour == Behaviour::schedule_without_its_last_kernel) --first.kernels.count;
  if (behaviour == Behaviour::schedule_from_two_rows && plan.graph && !plan.graph->symbols().empty()) {
    first.symbol = 0;
    first.least = 2;
    first.most = plan.graph->symbols().front().max;
  }
  if (behaviour == Behaviour::alone_without_reason) plan.told_alone.reason = {};
  if (behaviour == Behaviour::alone_beyond_the_graph) plan.told_alone.node = 4711;
  if (behaviour >= Behaviour::alone_without_reason) first.alone = {&plan.told_alone, 1, sizeof plan.told_alone};
  info.schedules = {plan.told.data(), plan.told.size(), sizeof(quern_schedule_info)};
}

void count_open(quern_plugin& plugin) {
  const std::uint32_t opens = ++plugin.opens;
  if (plugin.behaviour() == Behaviour::opens_200_times && opens > 200)
    throw sdk::Failure(QUERN_INTERNAL, "this mutant opens a device 200 times");
  if (plugin.behaviour() == Behaviour::leaks_descriptors) (void)::dup(2);
}

}  // namespace quern::mutant
