// Runs one node case on an open device through the ABI, in each mode that applies.
#pragma once

#include "case_table/case.hpp"
#include "judge/judge.hpp"
#include "quern/loader/loader.hpp"

#include <functional>
#include <string>
#include <vector>

namespace quern::conformance {

/// The tensors of a case in memory that run and reference share.
struct CaseData {
  std::vector<Tensor> inputs;  // absent() where the case has none
  std::vector<Tensor> states;  // one an output: its contents before the run, else absent()
};

/// What a mode's run came to, before its outputs are judged.
enum class Outcome { ran, unsupported, failed, resource, device_lost };

struct ModeResult {
  Numerics numerics = Numerics::exact;
  bool packed = false;  // constants under the layouts of weights_plan
  Outcome outcome = Outcome::failed;
  std::string text;     // why, for all but ran; a broken canary, a changed input, two runs that differ: failed
  std::string kernel;   // the plan's kernels, '+' between
  std::vector<Tensor> outputs;  // packed, one an output (absent() where the case has none); of the first run

  /// "exact", "fast", "exact packed", "fast packed".
  std::string mode() const { return std::string(numerics == Numerics::exact ? "exact" : "fast") + (packed ? " packed" : ""); }
};

/// Exact numerics; fast ones where the case allows conversions; and each of them again with packed weights where the plugin offers a
/// layout for a constant. In each mode: support, compile, instance, prepare, two runs with different poisons in outputs, gaps and
/// scratch. Checked after each: canaries, gaps, inputs, status and faults, and that both runs agree to the bit.
/// A "no" is checked too: compile must then refuse with QUERN_UNSUPPORTED.
std::vector<ModeResult> run_case(const loader::Device& device, const Case& c, const CaseData& data);

/// What time_case() measures.
struct Timing {
  std::uint32_t samples = 0;          // timed runs, after two that are not
  std::function<void()> before_each;  // to empty the caches, say; not timed
  std::vector<double> seconds;        // of each, from the submit to the fence
};

/// The case in the mode that a session would use: fast numerics and packed weights where they apply and are supported. The two runs
/// before and every timed run are checked as run_case() checks; the timed ones must also give the bits of the first, whose outputs are
/// returned.
ModeResult time_case(const loader::Device& device, const Case& c, const CaseData& data, Timing& timing);

}  // namespace quern::conformance
