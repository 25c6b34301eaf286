// A graph of several nodes as a case: what the fused group compiles whole and node by node.
//
// Pure description, as Case is. Values and nodes are numbered in the order in which they were added; GraphBuilder (graphs/) makes
// them and fills Case::inputs with what the graph binds and Case::outputs with what its nodes write, so that data, shared memory
// and journal treat a graph as they treat a node.
#pragma once

#include "case_table/case.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace quern::conformance {

struct CaseData;
struct ModeResult;
struct Verdict;

inline constexpr int no_value = -1;

/// What dimension 0 of a value counts: the rows of the step, those of them whose outputs are wanted, or something of its own.
enum class Extent { own, rows, outputs };

/// How many of each. outputs: 0 also in a graph that has no such extent.
struct Extents {
  std::int64_t rows = 0, outputs = 0;
  std::int64_t of(Extent extent) const noexcept { return extent == Extent::outputs ? outputs : rows; }
  bool operator==(const Extents&) const = default;
};

struct GraphValue {
  ValueSpec spec;                 // kind INPUT, CONSTANT and STATE are bound with contents; INTERNAL and OUTPUT are written by a node
  std::string name;               // "blk.0.attn_q", for messages
  int alias_of = no_value;        // a reshaped view of all of that value, a part of it, or the value that an output is written in place of
  std::uint64_t part_offset = 0;  // of a part: bytes from the start of alias_of
  std::int64_t part_row_bytes =
      0;                        // of a part: from one index of dimension 0 to the next; 0: this is no part. The other dimensions are packed
  Extent extent = Extent::own;  // ranged or not
  bool ranged = false;          // dimension 0 is the extent of the run; spec.dims has the most
  int input = no_value;         // its place in Case::inputs
  int output = no_value;        // its place in Case::outputs
};

struct GraphNode {
  std::uint32_t op = 0;
  std::vector<int> inputs, outputs;  // no_value: an optional one that is absent
  std::vector<Attribute> attributes;
  std::uint32_t fast_conversions = 0;  // QUERN_CONVERT_... that fast numerics allows
  int predicate = no_value;
};

/// A graph that runs several times with its state kept: before step s (1 ..) `fill` writes the inputs that change.
struct GraphSteps {
  int count = 1;
  std::vector<int> changing;  // values
  void (*fill)(int step, const std::vector<Tensor>& changing) = nullptr;
};

struct WholeGraph {
  std::vector<GraphValue> values;
  std::vector<GraphNode> nodes;
  Extents most;               // of ranged values; rows 0: none is. outputs 0: the graph has one ranged extent
  std::vector<Extents> runs;  // the first is the one that is judged whole. Empty: nothing is ranged
  bool mark_each = true;      // each value of its own marked as output once, the others not
  GraphSteps steps;
  std::uint64_t faults = 0;  // QUERN_FAULT_... that each run must raise
  /// Null: judge_graph of graphs/judge_graph.hpp.
  Verdict (*judge)(const Case& c, const CaseData& data, const std::vector<ModeResult>& modes) = nullptr;

  bool is_part(int value) const noexcept { return values[static_cast<std::size_t>(value)].part_row_bytes != 0; }
  /// The value that owns the memory.
  int root(int value) const noexcept {
    while (values[static_cast<std::size_t>(value)].alias_of != no_value) value = values[static_cast<std::size_t>(value)].alias_of;
    return value;
  }
};

}  // namespace quern::conformance
