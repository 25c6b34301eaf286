// What the process says to the shell. The numbers are documented in quern(1) and never change meaning.
#pragma once

#include "quern/quern_status.h"

namespace quern::cli {

enum ExitCode : int {
  exit_ok = 0,
  exit_usage = 2,
  exit_unavailable = 3,   // backend or device
  exit_refused = 4,       // model or data
  exit_does_not_fit = 5,  // memory
  exit_context = 6,
  exit_conformance = 7,  // of quern-conformance; here so that the list is whole
  exit_watchdog = 8,     // a training run whose loss was too high or not finite
  exit_bug = 70,
};

/// The exit code of a failed library call. A code that this program does not know is a bug of ours.
ExitCode exit_code_of(quern_status status) noexcept;

}  // namespace quern::cli
