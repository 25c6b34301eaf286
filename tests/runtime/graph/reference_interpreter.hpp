// Runs a graph in f64, one op after another, by the plainest reading of the contracts in quern/graph/ops.hpp.
//
// An oracle for tests: slow, without fusing, rounding nothing, sharing no code with any backend. It has the ops of a step of
// a decoder, and those of training; another op is refused. It knows no predicates.
#pragma once

#include "quern/graph/graph.hpp"

#include <cstdint>
#include <map>
#include <vector>

namespace quern::test {

/// A value at its exact extents. Strides are in elements.
struct Cells {
  double* data = nullptr;
  std::vector<std::int64_t> dims;
  std::vector<std::int64_t> strides;

  std::int64_t rank() const { return static_cast<std::int64_t>(dims.size()); }
  std::int64_t last() const { return dims.back(); }
  std::int64_t count() const;
  /// The product of all dimensions but the last.
  std::int64_t rows() const;
  double& at(std::initializer_list<std::int64_t> index) const;
  /// Element `i` in row-major order of the dims.
  double& flat(std::int64_t i) const;
  /// Element (row, column), the row counted over all dimensions but the last.
  double& cell(std::int64_t row, std::int64_t column) const { return flat(row * last() + column); }
};

class ReferenceInterpreter {
 public:
  explicit ReferenceInterpreter(const graph::Graph& graph);

  /// The exact extent of a symbol for the next runs; its largest by default.
  void extent(graph::SymbolId symbol, std::int64_t size);
  /// Row-major elements at the exact extents; for a constant of a block format the decoded numbers.
  void set(graph::ValueId value, const std::vector<double>& elements);
  void set(graph::ValueId value, const std::vector<float>& elements);
  void set(graph::ValueId value, const std::vector<std::int32_t>& elements);
  std::vector<double> get(graph::ValueId value);

  /// Whether an index was out of range since the last run began.
  bool index_fault() const { return index_fault_; }
  void run();

  // For the ops.
  Cells cells(graph::ValueId value);
  const graph::Graph& graph() const { return graph_; }
  void raise_index_fault() { index_fault_ = true; }

 private:
  const graph::Graph& graph_;
  std::map<graph::SymbolId, std::int64_t> extents_;
  std::vector<std::vector<double>> memory_;  // by root value, at the largest extents
  bool index_fault_ = false;
};

/// One node, its inputs (data null where absent) and its outputs.
struct ReferenceCall {
  ReferenceInterpreter& interpreter;
  const graph::Node& node;
  std::vector<Cells> in;
  std::vector<Cells> out;
  std::int64_t integer(std::uint32_t key) const;
  double number(std::uint32_t key) const;
};

using ReferenceOp = void (*)(ReferenceCall&);
/// Null for an op that the interpreter does not have.
ReferenceOp find_reference_op(std::uint32_t op);

/// The ops that only training has, in reference_training.cpp, and their gradients, in reference_gradients.cpp; null for others.
ReferenceOp find_training_op(std::uint32_t op);
ReferenceOp find_gradient_op(std::uint32_t op);

// In reference_arithmetic.cpp, reference_attention.cpp, reference_sampling.cpp.
void reference_add(ReferenceCall& call);
void reference_sub(ReferenceCall& call);
void reference_mul(ReferenceCall& call);
void reference_div(ReferenceCall& call);
void reference_scale(ReferenceCall& call);
void reference_copy(ReferenceCall& call);
void reference_get_rows(ReferenceCall& call);
void reference_take(ReferenceCall& call);
void reference_rms_norm(ReferenceCall& call);
void reference_add_rms_norm(ReferenceCall& call);
void reference_matmul(ReferenceCall& call);
void reference_silu(ReferenceCall& call);
void reference_glu(ReferenceCall& call);
void reference_softmax(ReferenceCall& call);
void reference_rope_table(ReferenceCall& call);
void reference_rope(ReferenceCall& call);
void reference_kv_write(ReferenceCall& call);
void reference_attention(ReferenceCall& call);
void reference_argmax(ReferenceCall& call);
void reference_penalize(ReferenceCall& call);
void reference_logit_bias(ReferenceCall& call);
void reference_sample(ReferenceCall& call);

}  // namespace quern::test
