// One lane: inputs in shared memory, a device process for each target, the reference and the judge.
#pragma once

#include "judge/judge.hpp"
#include "worker/child_process.hpp"
#include "worker/device_process.hpp"
#include "worker/host_memory.hpp"
#include "worker/run_cases.hpp"

#include <memory>
#include <optional>

namespace quern::conformance {

/// Joins the result of one more run of a case: the numbers add up; another status makes it a failure whose text begins with "flaky: ".
void join_repeat(CaseResult& first, const CaseResult& again, std::uint32_t round);

/// One thread.
class Lane {
 public:
  Lane(const RunPlan& plan, Journal& journal, HostMemory& memory);

  /// Runs the case `repeat` times on the targets that `wanted` marks; one result a target, others empty.
  std::vector<CaseResult> run(const Case& c, const std::vector<bool>& wanted);

  /// What a case expects: computed once, when it is first asked for.
  class Reference {
   public:
    Reference(const Case& what, const CaseData& data) : what_(what), data_(data) {}
    const Expected& get();
    /// Of inputs and states whose f32 and bf16 subnormals are zeros.
    const Expected& of_flushed();

   private:
    const Case& what_;
    const CaseData& data_;
    std::optional<Expected> expected_, flushed_;
  };

 private:
  /// Starts the target's process if there is none. Empty, or why it does not start.
  std::string ensure_process(std::size_t target);
  /// One round of run(). The reference is computed in the first, while the devices work.
  std::vector<CaseResult> run_once(const Case& c, const std::vector<bool>& wanted, Reference& reference);
  CaseResult judge_whole_graph(const Case& c, const CaseAnswer& answer, bool flushes, std::span<std::byte> arena);
  /// `turn` ends when the device has answered.
  CaseResult collect(const Case& c, std::size_t target, Reference& reference, bool retry);
  CaseResult judge_answer(const Case& c, const CaseAnswer& answer, Reference& reference, bool flushes, SharedMemory& outputs);

  /// Gives back what a large case took: its memory is shared with the device processes, which go with it.
  void release();

  const RunPlan& plan_;
  Journal& journal_;
  HostMemory& memory_;
  SharedMemory inputs_;
  std::vector<std::unique_ptr<ChildProcess>> processes_;
  std::vector<bool> flushes_;                 // whether the device that a process opened declares `ftz`
  std::vector<std::uint32_t> silent_starts_;  // one a target: starts in a row that no answer followed
};

}  // namespace quern::conformance
