// One case: a node with its values and data, a whole graph, or a script against the ABI; and how it is judged.
//
// A case is pure description: building the whole table allocates no tensor and calls no plugin. Its name encodes all of it and
// seeds its data, so a name alone reproduces a case. Op families (ops/<op>.cpp) make cases; see conformance/README.md.
#pragma once

#include "case_table/layout.hpp"
#include "data/data_kind.hpp"
#include "quern/quern_graph.h"
#include "quern/quern_ops.h"
#include "reference/expected.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace quern::conformance {

class ScriptContext;  // device_run/script.hpp
struct WholeGraph;    // case_table/whole_graph.hpp

/// The smallest profile that has a case: full holds quick's too, huge only its own.
enum class Profile { quick, full, huge };
const char* profile_name(Profile profile);

/// What a backend must be able to do at each level; a run of level n has the cases of 1 to n, and all of them are mandatory.
///   1 basic      the ABI (all scripts of the group abi that need no more than these ops); copy of f32, f16, bf16 and i32 between any
///                views; plain products of f32 and f16: two contiguous matrices, no attribute, bias or c
///   2 inference  what a session runs: every format, other layouts, norms, attention, experts, sampling
///   3 training   gradients, loss, optimisers, adapters
///   4 all        the whole op set
/// CaseSink::add raises a case that is marked basic and asks for more than level 1 names (least_level).
enum Level : int { level_basic = 1, level_inference = 2, level_training = 3, level_all = 4 };

/// One input or output of the node.
struct ValueSpec {
  quern_dtype dtype = QUERN_DTYPE_NONE;  // NONE: an optional value that is absent
  Dims dims;
  DataKind data = DataKind::uniform;  // of inputs, and of state outputs before the run
  Layout layout;
  std::uint32_t kind = QUERN_VALUE_INPUT;  // outputs: OUTPUT, or STATE where they are read and written
  int in_place_of = -1;                    // an output in the memory of this input
  bool observed = false;                   // no output of the node: what it leaves in the input that this is in place of
  /// Fills the packed tensor instead of `data`; `fill_name` then stands for it in the case's name.
  std::function<void(const Tensor&, const CounterRandom&)> fill;
  std::string fill_name;

  bool absent() const noexcept { return dtype == QUERN_DTYPE_NONE; }
};

struct Attribute {
  std::uint32_t key;  // QUERN_KEY_...
  double value;       // exact for integer keys; the plugin may hold a real one in f32, so cases use numbers that f32 has
};

/// Dimension 0 of some values as one ranged dimension. The case's dims are the count that the run has; graph and memory are made for
/// `most`, and what lies behind the count is poison that must be neither read nor written.
struct RangedRows {
  std::int64_t most = 0;                  // 0: no dimension is ranged
  std::uint32_t inputs = 0, outputs = 0;  // bit i: of input i, of output i; these values are packed
  bool on_device = false;                 // the count is an i32 in device memory; else it is the run's bound
};

struct Case {
  std::string name;  // given by CaseSink::add
  std::string group;
  std::string family;  // what made it, given by CaseSink: a row of the family tables, or "onnx", "variants", "abi"
  std::uint32_t op = 0;
  Profile profile = Profile::full;
  int level = level_all;
  std::vector<ValueSpec> inputs, outputs;
  std::vector<Attribute> attributes;   // those that are not at their default
  std::uint32_t fast_conversions = 0;  // QUERN_CONVERT_... that fast numerics allows for this node; 0: no fast run
  std::uint64_t faults = 0;            // QUERN_FAULT_... that the run must raise, and no other
  RangedRows ranged;
  bool patched = false;  // inputs that are no constants come as patches of the run
  std::string note;      // a further part of the name for what the specs do not show
  int deadline_seconds = 60;
  bool predicated = false;  // the last input is the node's predicate, no operand of the op
  Reference reference;
  /// Fills inputs that follow from others, after all of them have their data (y and lse of a gradient). Null: there are none.
  std::function<void(const ReferenceCall& call)> derive;
  std::function<void(ScriptContext&)> script;  // of the ABI group: instead of all of inputs .. reference
  std::shared_ptr<const WholeGraph> graph;     // of the fused group: instead of op, attributes and reference
  bool every_kernel = false;                   // runs under each kernel that can be forced too, a graph under each family

  double attribute(std::uint32_t key, double fallback) const noexcept {
    for (const Attribute& a : attributes)
      if (a.key == key) return a.value;
    return fallback;
  }
};

}  // namespace quern::conformance
