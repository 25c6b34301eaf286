// Runs cases on targets: lanes, each with one device process a target, and the references.
#pragma once

#include "case_table/exclusions.hpp"
#include "journal/journal.hpp"

#include <functional>

namespace quern::conformance {

struct RunPlan {
  std::vector<const Case*> cases;
  std::vector<Target> targets;
  std::vector<std::vector<Exclusion>> exclusions;  // one list a target
  Selection selection;
  std::uint32_t jobs = 1;
  std::uint32_t threads_of_a_lane = 1;  // that judge the modes of a whole graph
  bool stop_at_failure = false;         // of any target
  std::uint64_t seed = 0;
  std::uint32_t repeat = 1;        // runs of each case on each target; verdicts that differ are a failure
  bool reference_after = false;    // computed behind the devices, and only where one of them has outputs to judge: for plugins that fail
  std::uint64_t memory_limit = 0;  // bytes of host memory that large cases may take together; 0: what there is
  std::uint32_t deadline_seconds = 0;  // of a case at most; 0: its own
};

/// A finished case: its place in the plan, the target's, the result. Called from any lane, one at a time.
using OnResult = std::function<void(const Case&, std::size_t target, const CaseResult&)>;

/// Each case once on each target. `jobs` lanes work at once; a lane fills the inputs of a case in shared memory, hands its name to
/// one device process a target, computes the reference meanwhile, and judges what comes back: a reference value is made once for all
/// targets and numerics, and neither reference nor judge shares a process with a plugin. A process that dies, hangs or loses its device is replaced; the case that was open gets the blame, after it was tried once
/// more alone (the text says how that ended). Results that the journal holds are passed on without running.
void run_cases(const RunPlan& plan, Journal& journal, const OnResult& on_result);

}  // namespace quern::conformance
