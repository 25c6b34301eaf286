// Plans that run their nodes one after the other, each by a function of its op. A plugin begins so, and makes
// plans of its own once it fuses nodes or records launches.
//
//   struct Backend { using Op = InOrderOp<Device>; using Plan = InOrderPlan<Device>; using Instance =
//   InOrderInstance<Device>; ... };
//
// A Device gives, beyond what handles.hpp names: read(void* to, address, bytes) and write(address, const
// void* from, bytes).
//
// Part of the plugin SDK (include quern/quern_device_plugin.hpp); C++17, not part of the ABI.
#ifndef QUERN_SDK_IN_ORDER_HPP
#define QUERN_SDK_IN_ORDER_HPP

#include "quern/sdk/bindings.hpp"
#include "quern/sdk/scratch.hpp"
#include "quern/sdk/told_schedules.hpp"

#include <atomic>

namespace quern {
namespace sdk {

template <class Device>
struct InOrderOp : OpOffer {
  constexpr InOrderOp(std::uint32_t id, const char* kernel_name, std::string (*refuses)(const Call&), void (*runs)(const Call&, Device&),
                      bool takes_row_predicate = false)
      : OpOffer{id, kernel_name, refuses, takes_row_predicate}, run(runs) {}
  /// For the dims of one run; allocates nothing. A predicate of one number was read before.
  void (*run)(const Call& call, Device& device);
};

/// Whether force_kernel asks for this kernel: by its name, or by a family, one of the words between its dots.
inline bool is_forced(std::string_view forced, std::string_view kernel) {
  if (forced == kernel) return true;
  for (std::size_t at = 0; at <= kernel.size();) {
    const std::size_t dot = std::min(kernel.find('.', at), kernel.size());
    if (kernel.substr(at, dot - at) == forced) return true;
    at = dot + 1;
  }
  return false;
}

/// The offers of a table of such ops.
template <class Op>
class TableOffers : public Offers {
 public:
  template <std::size_t Count>
  constexpr explicit TableOffers(const Op (&table)[Count]) : first_(table), last_(table + Count) {}
  const OpOffer* find(std::uint32_t op) const override {
    const Op* row = std::find_if(first_, last_, [op](const Op& candidate) { return candidate.op == op; });
    return row == last_ ? nullptr : row;
  }

 private:
  const Op *first_, *last_;
};

template <class Device>
struct InOrderPlan {
  InOrderPlan(Device& device, const quern_graph* host_graph, const quern_compile_options& options, std::vector<std::uint32_t>& refused)
      : graph(host_graph, device.offers()) {
    const std::string_view forced = view(options.force_kernel);
    std::vector<StepMemory> steps;
    for (std::uint32_t n = 0; n < graph.nodes.size(); ++n) {
      ResolvedNode& node = graph.nodes[n];
      if (node.refusal.empty() && !forced.empty() && !is_forced(forced, node.offer->kernel))
        node.refusal = concat("no kernel '", forced, "' here; there is ", node.offer->kernel);
      steps.emplace_back();
      for (const auto* list : {&node.inputs, &node.outputs})
        steps.back().values.insert(steps.back().values.end(), list->begin(), list->end());
      steps.back().values.push_back(node.predicate);
      most_operands = std::max(most_operands, node.inputs.size() + node.outputs.size());
    }
    graph.require_runnable(refused);
    layout = lay_out_scratch(graph, steps);
    launches = static_cast<std::uint32_t>(graph.nodes.size());
    told.schedule();
    for (std::uint32_t n = 0; n < graph.nodes.size(); ++n) {
      told.kernel(graph.nodes[n].offer->kernel, "", {n}, n);
      told.alone({n, "", "this plugin has a kernel for each node and no rule that joins them"});
    }
    told.serves(0);
    infos = told.kernels(0);
  }

  ResolvedGraph graph;
  ScratchLayout layout;
  ToldSchedules told;
  std::vector<quern_kernel_info> infos;
  std::size_t most_operands = 0;
  std::uint64_t numerics_key = Device::numerics_key;
  std::uint32_t determinism = Device::determinism, launches = 0;
};

template <class Device>
class InOrderInstance {
 public:
  InOrderInstance(const InOrderPlan<Device>& plan, Device& device) : plan_(plan), device_(device), bounds_(plan.graph) {
    for (const ResolvedValue& value : plan.graph.values) tensors_.push_back(value.tensor);
    operands_.reserve(plan.most_operands);  // a run allocates nothing [C12]
  }

  InstanceBounds& bounds() noexcept { return bounds_; }
  std::uint64_t scratch_bytes() const noexcept { return plan_.layout.bytes; }
  std::uint64_t private_bytes() const noexcept { return 0; }
  bool ready() const noexcept { return prepared_; }
  const quern_counters& counters() const noexcept { return counters_; }
  void begin() noexcept { cancelled_ = false; }
  void cancel() noexcept { cancelled_ = true; }

  void prepare(BoundPlaces places) {
    for (std::uint32_t v = 0; v < tensors_.size(); ++v) {
      const ResolvedValue& value = plan_.graph.values[v];
      const bool internal = plan_.graph.internal(value.root);
      tensors_[v].data = internal ? places.scratch + plan_.layout.value_offset[value.root] + value.offset : places.of[v];
    }
    counters_ = made<quern_counters>();
    prepared_ = true;
  }

  // A run, as run_list.hpp wants it: it has ended when start() returns.
  std::uint32_t slot() const noexcept { return 0; }
  std::uint32_t op_of(std::uint32_t node) const noexcept { return plan_.graph.nodes[node].op; }
  void finish(const quern_run&, quern_run_status&) noexcept {}
  bool start(const quern_run& run) {
    ++counters_.runs;
    for (const quern_patch& patch : List<quern_patch>(run.patches, "patches"))
      if (patch.bytes > 0) device_.write(tensors_[patch.value].data + patch.offset, patch.data, patch.bytes);
    counters_.host_copies += bounds_.patch_bytes();
    bounds_.read_extents([this](std::uint32_t value) { return number_at(value); });
    for (std::uint32_t v = 0; v < tensors_.size(); ++v) plan_.graph.shape(v, bounds_.extents(), tensors_[v]);
    for (std::uint32_t n = 0; n < plan_.graph.nodes.size(); ++n) {
      try {
        run_node(plan_.graph.nodes[n]);
      } catch (Failure& failure) {
        failure.node = n;
        throw;
      }
    }
    return false;
  }

 private:
  std::int32_t number_at(std::uint32_t value) {
    std::int32_t number = 0;
    device_.read(&number, tensors_[value].data, sizeof number);
    return number;
  }
  void run_node(const ResolvedNode& node) {
    if (cancelled_.load(std::memory_order_relaxed)) throw Failure(QUERN_CANCELLED, "the run was cancelled", 18);
    if (node.predicate != QUERN_NONE && !node.row_predicate && number_at(node.predicate) == 0) return;
    const Call call = plan_.graph.call(node, operands_, [this](std::uint32_t v) -> const Tensor& { return tensors_[v]; });
    static_cast<const InOrderOp<Device>*>(node.offer)->run(call, device_);
  }

  const InOrderPlan<Device>& plan_;
  Device& device_;
  InstanceBounds bounds_;
  std::vector<Tensor> tensors_;   // one a value, of the run under way
  std::vector<Tensor> operands_;  // of the node under way
  bool prepared_ = false;
  std::atomic<bool> cancelled_{false};
  quern_counters counters_ = made<quern_counters>();
};

}  // namespace sdk
}  // namespace quern

#endif
