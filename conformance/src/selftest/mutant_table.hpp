// The deliberately broken plugins as the suite sees them: which cases must find each, and how.
#pragma once

#include "judge/verdict.hpp"

#include <string>
#include <vector>

namespace quern::conformance {

/// How a mutant must be found. A failure of another kind is no kill: it would say that the wrapper is broken, not what it spoils.
enum class Sign {
  value,        // an element is not what the reference expects
  repeat,       // two runs on the same inputs differ
  canary,       // memory before or behind a buffer was written
  gap,          // memory between rows was written
  input,        // an input was changed
  scratch,      // memory behind the scratch was written
  status,       // the run ended with a code
  refusal,      // support and compile disagree, or the refusal has the wrong code
  unsupported,  // a mandatory case is not supported
  fault,        // faults other than the expected ones
  printed,
  manners,  // environment, signals, directory, rounding mode were changed
  crash,
  timeout,
  lost,       // the device is lost
  no_device,  // no device is found: exit code 3
  script,     // a script fails
  audit,      // every case passes, and `audit` finds that a session computes something else
  any,
};
const char* sign_name(Sign sign);
/// Whether a verdict shows this sign.
bool shows(Sign sign, const Verdict& verdict);

struct Mutant {
  std::string name;
  Sign sign;
  std::vector<std::string> cases;  // globs on case names
  std::string what;
  /// Whose wrapper: libbackend_mutant.so, libbackend_mutant_device.so or libbackend_mutant_queue.so.
  enum class Of { host, device, queue } of = Of::host;
  bool total = false;  // every case with an output element must fail
};

/// conformance/mutant/mutants.def.
const std::vector<Mutant>& mutants();

}  // namespace quern::conformance
