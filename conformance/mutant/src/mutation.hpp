// What one mutant spoils, and where in a run. The table of all is ../mutants.def.
#pragma once

#include "slot.hpp"

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace quern::mutant {

/// Faults that no edit of a descriptor or of values makes; plugin.cpp and run.cpp carry them out.
enum class Behaviour {
  none,
  null_plugin,   // says yes to everything, computes nothing
  wrong_memory,  // computes on memory of its own: nothing arrives
  no_device,
  says_no,  // support: no, and compile refuses as it should
  says_no_compiles,
  says_yes_refuses,
  other_refusal,  // support: no; compile fails with another code than UNSUPPORTED
  failed_status,  // the right result, and a status that says it failed
  silent_fault,   // QUERN_FAULT_... bits are lost
  invented_fault,
  writes_past_end,
  writes_before,
  writes_gap,
  writes_scratch_end,
  writes_input,
  reads_behind_inputs,   // the 64 bytes behind the first input of a node
  reads_behind_weights,  // and behind the second
  loses_packed_tail,     // the last bytes of a packed weight are 0
  ignores_force_kernel,
  told_free,       // plan_info has QUERN_DETERMINISM_FREE, whatever the nodes ask
  prepare_writes,  // prepare writes what is bound
  depends_on_scratch,
  depends_on_run,
  depends_on_third_run,
  depends_on_output,
  late_run,         // submit returns before the run: it is done at the next call
  previous_answer,  // the output of the run before
  crash,
  hang,
  exit_70,
  exit_0,
  lost_device,
  lost_in_status,  // submit is OK, and the run's status says that the device was lost
  lost_in_no,      // of the call of support that would have said no
  throws,
  prints,
  prints_to_stderr,
  leaks_memory,
  allocates,
  maps_in_submit,
  maps_in_first_submit,
  opens_file_in_submit,
  looks_for_file_in_submit,
  thread_in_submit,
  counts_allocation,
  counts_compile,
  counts_rerecord,
  ignores_patches,
  ignores_offset,
  shared_bindings,
  plan_cache_without_attributes,
  ignores_cancel,
  sets_environment,
  sets_rounding,
  sets_signal,
  sets_directory,
  accepts_unprepared,
  accepts_run_flags,
  accepts_small_structs,
  changing_support,
  // of long and full sessions (sessions.cpp)
  wrong_after_100_runs,
  wrong_at_run_1000,     // and at no other
  wrong_in_lists,        // the fifth run of a list of eight or more
  lost_in_lists,         // of a list of more than sixteen runs the last is not run
  plans_over_300_nodes,  // are wrong
  plans_over_128_alive,  // the plans behind the 128th
  first_of_many_plans,   // the first plan, while more than 128 are alive
  sticky_faults,         // of an instance
  sticky_device_faults,  // of all its instances
  lowest_bit_of_predicates,
  low_byte_of_predicates,
  low_byte_of_row_predicates,
  patches_over_64_lost,
  patches_end_at_16_kib,
  constant_numerics_key,
  numerics_key_of_ops,
  one_launch,
  kernels_of_first_node,
  schedule_without_its_last_kernel,
  schedule_from_two_rows,
  alone_without_reason,
  alone_beyond_the_graph,
  status_names_first_node,
  status_left_as_it_was,  // of runs that end well, but for code and faults
  opens_200_times,
  leaks_descriptors,  // one for each open
  // of the simulated device
  other_memory,  // runs work on a second memory of each buffer
  upload_at_start,
  short_download,
  short_copy,
  byte_fill,
  beyond_buffer,
  silent_out_of_memory,
  no_limit,
  used_not_counted,
  busy_close,
  transfers_end_at_48_mib,
  offsets_of_32_bits,
  bindings_of_32_bits,  // only those of prepare
  budget_above_total,
  budget_is_the_limit,
  total_beyond_all,
  used_never_falls,
  copy_overlaps,    // a copy onto a part of itself is done from its start
  upload_deferred,  // its bytes are read at the next call; behind queues: behind its point
  // of the device behind queues
  fence_query_runs_ahead,  // to the last point that was enqueued
  host_signal_lowers,
  queue_of_32_jobs_lost,
  destroys_in_flight,  // what work in flight names is destroyed
  forgets_buffers,     // a buffer that work in flight names is said to be destroyed
  forgets_instances,
  waits_run_ahead,  // fence_wait ends while the point is behind a gate
};

/// One node of a run with its values in memory.
class NodeRun {
 public:
  NodeRun(const NodeCopy& node, std::vector<Slot> inputs, std::vector<Slot> outputs, std::vector<Slot> kept)
      : node_(node), inputs_(std::move(inputs)), outputs_(std::move(outputs)), kept_(std::move(kept)) {}

  /// The private copy where the mutation asks for one, else the host's memory. absent() beyond the end.
  Slot input(std::size_t i) const { return i < inputs_.size() ? inputs_[i] : Slot(); }
  Slot output(std::size_t o) const { return o < outputs_.size() ? outputs_[o] : Slot(); }
  /// What output o held before the run.
  Slot kept(std::size_t o) const { return o < kept_.size() ? kept_[o] : Slot(); }
  const std::vector<Slot>& outputs() const noexcept { return outputs_; }
  double attribute(std::uint32_t key, double fallback) const { return node_.number(key, fallback); }
  /// QUERN_CONVERT_... that the node allows.
  std::uint32_t conversions() const noexcept {
    return (node_.fields.uses & QUERN_NODE_USES_PRECISION) != 0 ? node_.fields.conversions : 0u;
  }

 private:
  const NodeCopy& node_;
  std::vector<Slot> inputs_, outputs_, kept_;
};

struct Mutation {
  Behaviour behaviour = Behaviour::none;
  std::function<void(GraphCopy&)> edit_graph;  // before support, weights_plan and compile see it
  std::uint32_t op = 0;                        // the nodes that the rest is about; 0: all
  std::vector<std::size_t> copied_inputs;      // inputs that such a node reads from a private copy
  std::function<void(const NodeRun&)> before;  // edits the copies, before the run
  std::function<void(const NodeRun&)> after;   // edits the outputs, after it

  bool needs_inputs = true;     // false: also nodes inside of larger graphs, whose inputs lie in scratch
  bool needs_outputs = true;    // false: the same of outputs
  bool only_fused = false;      // only in plans of several nodes that were compiled with fusion
  bool only_invariant = false;  // only nodes that ask for INVARIANT
  bool first_rows = false;      // ranged values count as their first row, which every run has that computes anything
  bool declares_card = false;   // the device says that it is a card of its own
  bool declares_ftz = false;    // the device says that it takes f32 subnormals for zeros

  bool is_about(const NodeCopy& node) const noexcept {
    if (only_invariant && ((node.fields.uses & QUERN_NODE_USES_DETERMINISM) == 0 || node.fields.determinism != QUERN_DETERMINISM_INVARIANT))
      return false;
    return op == 0 || node.fields.op == op;
  }
};

/// Nothing for a name that the table does not have. "none": the plugin underneath, unspoiled. "ftz": it flushes, and says so, which is no
/// fault. "card": it says that it is a card, which no case can refute.
std::optional<Mutation> find_mutation(std::string_view name);

}  // namespace quern::mutant
