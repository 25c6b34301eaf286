// Runs one node case on an open device through the ABI, in each mode that applies.
#pragma once

#include "case_table/whole_graph.hpp"
#include "device_run/prepared.hpp"
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

/// What a mode of a whole graph is: one plan, one plan without fusion, a plan a node, one plan with a further output, one plan with
/// another number of rows. `node`: of a node case.
enum class Role { node, whole, unfused, node_by_node, marked, other_rows };

struct ModeResult {
  Numerics numerics = Numerics::exact;
  bool packed = false;      // constants under the layouts of weights_plan
  bool as_session = false;  // nodes ask for what a session's ask on this device; else for REPEATABLE
  Outcome outcome = Outcome::failed;
  std::string text;             // why, for all but ran; a broken canary, a changed input, two runs that differ: failed
  std::string kernel;           // the plan's kernels, '+' between
  std::vector<Tensor> outputs;  // packed, one an output (absent() where the case or the mode has none); of the first run
  std::string family;           // of kernels, forced as the user's option; empty: free
  std::string label;            // what is special: a kernel forced by name, "blk.0.attn_q marked", "node by node"; empty: nothing
  Role role = Role::node;
  Extents extents;       // of a ranged graph
  int step = 0;          // of a graph of several steps
  bool flushes = false;  // the device declares `ftz`; told by whoever judges
  PlanFacts facts;       // of the plan; node by node: kernels one a node, the least determinism

  /// "exact", "fast", "exact packed", "fast packed", then "as a session asks", the family and the label.
  std::string mode() const {
    return std::string(numerics == Numerics::exact ? "exact" : "fast") + (packed ? " packed" : "") +
           (as_session ? " as a session asks" : "") + (family.empty() ? "" : " " + family) + (label.empty() ? "" : " " + label);
  }
};

/// Whether a case runs as a session asks too. Sessions ask CPUs for QUERN_DETERMINISM_INVARIANT in every node, so on a CPU every case does,
/// and must be supported. Other devices have it where the user wants `deterministic`: one case in six does, by its name, of a device in software one
/// in 24, and a "no" leaves the mode out. Nodes of the huge profile do not: their outputs would take as much
/// memory again.
bool runs_as_session(const loader::Device& device, const Case& c);
/// What the nodes of a session's graph ask of the device: of a CPU INVARIANT, of others where the user wants `deterministic`. There half of the graphs
/// do, by their names.
std::uint32_t session_determinism(const loader::Device& device, const Case& c);
/// Whether a whole graph leaves out, on a device in software, canonical weights in fast numerics where the plugin plans layouts, and packed ones in
/// exact numerics: three cases in four do, by their names.
bool spares_layouts(const loader::Device& device, const Case& c);
/// How often a mode runs its instance: two times, and three times in each third case, by its name; two in the huge profile.
int runs_of(const Case& c);

/// Exact numerics; fast ones where the case allows conversions; each of them again with packed weights where the plugin offers a layout for a
/// constant; and each of all these once more with INVARIANT, where runs_as_session(). A mode with INVARIANT is left out where its kernels and bits
/// are those of the mode without it, which is judged.
/// In each mode: support, compile, instance, prepare, runs_of() runs with different poisons in outputs, gaps and scratch. Checked after each:
/// canaries, gaps, inputs, status and faults, and that all runs agree to the bit. A plan keeps at least the determinism that its node asks.
/// A "no" is checked too: compile must then refuse with QUERN_UNSUPPORTED.
/// `options`: how each is compiled; where force_kernel is set, a refusal to compile is Outcome::unsupported and the mode is left out.
std::vector<ModeResult> run_case(const loader::Device& device, const Case& c, const CaseData& data, const PlanOptions& options = {});

/// What time_case() measures.
struct Timing {
  std::uint32_t samples = 0;          // timed runs, after two that are not
  std::function<void()> before_each;  // to empty the caches, say; not timed
  /// Other data of the case for each timed run, so that no result can be kept from a run before. Null: the same data.
  std::function<CaseData(std::uint32_t run)> data_of;
  std::vector<double> seconds;  // of each, from the submit to the fence
};

/// The case in the mode that a session would use: fast numerics and packed weights where they apply and are supported. The two runs
/// before and every timed run are checked as run_case() checks; the timed ones must also give the bits of the first, whose outputs are
/// returned.
ModeResult time_case(const loader::Device& device, const Case& c, const CaseData& data, Timing& timing);

}  // namespace quern::conformance
