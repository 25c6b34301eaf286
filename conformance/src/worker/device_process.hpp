// The process that loads one plugin, opens one device and runs cases on it.
#pragma once

#include "cli/options.hpp"
#include "device_run/case_run.hpp"
#include "judge/verdict.hpp"

#include <optional>
#include <set>
#include <string>

namespace quern::conformance {

/// The hidden verb `device-process LABEL`: opens the device, answers {"ready":...}, then runs each case that is named on a line.
/// Outputs go to shared memory, mode after mode. Returns the exit code.
int device_main(const Selection& selection, const std::string& label, std::uint64_t seed);

/// What it answers for one case.
struct CaseAnswer {
  std::string changed;                          // of the process, since the case before: what a plugin may not touch [C9]; empty: nothing
  std::vector<ModeResult> modes;                // without outputs: those are in shared memory, mode after mode
  std::vector<std::set<std::size_t>> observed;  // one a mode: the outputs that it shows
  std::optional<Verdict> script;                // of a script case
  std::vector<double> seconds;                  // of a bench request: each timed run
};
/// Throws nlohmann's exceptions on a malformed line.
CaseAnswer parse_answer(const std::string& line);

}  // namespace quern::conformance
