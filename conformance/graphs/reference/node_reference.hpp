// What one node of a whole graph must give, in f64, from inputs that are known exactly or to within a deviation.
//
// A value that was observed (an output, a state, a marked value) is known exactly: the nodes behind it are judged by what the device
// itself had there. A value that no plan shows is known by its reference r and a standard deviation s of the device's error in it:
//   s^2 = (E_acc^2 + E_out^2) / 3 + s_in^2,  s_in^2 = sum (dy/dx_i s_i)^2 and the conversions that fast numerics allows.
// E_acc and E_out bound an error that is taken as uniform between them: a kernel may round a value that nobody sees, or not. An observed
// value is accepted within E_acc + E_out + 8 s_in: with exact inputs that is the bound of the op's own cases. Errors of different
// elements are taken as independent. Where they are not (one factor of a whole row, a residual that meets its own branch), 8 deviations
// leave room, as bounds of sums are not reached. Sums, norms and scores follow their inputs to the first order; activations bend, and
// are followed to 8 deviations on either side.
#pragma once

#include "case_table/whole_graph.hpp"
#include "judge/judge.hpp"

#include <functional>
#include <string>
#include <vector>

namespace quern::conformance {

/// An input of a node, rows beyond the run's left out. Exact ones are read from the tensor.
struct Operand {
  Dims dims;
  const Tensor* tensor = nullptr;  // exact; else value and deviation
  std::vector<double> value, deviation;

  bool exact() const noexcept { return tensor != nullptr; }
  std::int64_t count() const noexcept { return element_count(dims); }
  std::int64_t last() const noexcept { return dims.empty() ? 1 : dims.back(); }
  /// Elements first .. first + n - 1, and their deviations (0 where exact).
  void read(std::int64_t first, std::int64_t n, double* out) const;
  void read_deviation(std::int64_t first, std::int64_t n, double* out) const;
  std::vector<double> values() const;
  std::vector<double> deviations() const;
};

/// An output of a node. Vectors are parallel; `index` is empty where all elements of the live rows are there.
struct Result {
  std::vector<double> value, bound, deviation;  // r, E_acc, s_in
  std::vector<std::int64_t> index;
  bool independent = false;               // errors of fast numerics are: the aggregate tests apply
  double sharing = 1, gain_variance = 0;  // as ExpectedOutput has them
  /// Instead of the vectors, for what no bound describes (indices, encoded caches): "" if the tensor is right, else what is wrong.
  std::function<std::string(const Tensor& found)> check;

  void add(double r, double e_acc, double s) {
    value.push_back(r);
    bound.push_back(e_acc);
    deviation.push_back(s);
  }
};

struct NodeCall {
  const GraphNode& node;
  Numerics numerics;
  std::vector<const Operand*> inputs;     // null: absent
  std::vector<const Tensor*> states;      // one an output: what a state held before, else null
  std::vector<quern_dtype> dtypes;        // of the outputs
  bool sparse = false;                    // the output is observed: a large product may be judged at some of its elements
  std::string seed;                       // for the choice of those elements
  std::vector<const Tensor*> shown = {};  // one an output: what the device had, where the run shows it; else null

  const Operand& input(std::size_t i) const { return *inputs.at(i); }
  bool has(std::size_t i) const { return i < inputs.size() && inputs[i] != nullptr; }
  double attribute(std::uint32_t key, double fallback) const;
};

/// Throws std::logic_error for an op that whole graphs do not use yet: its reference is then missing in graphs/reference/.
std::vector<Result> node_reference(const NodeCall& call);

// One function an op or a few, in the files of this folder.
void matmul_node(const NodeCall& call, Result& y);
void rms_norm_node(const NodeCall& call, Result& y);
void add_rms_norm_node(const NodeCall& call, Result& sum, Result& y);
void get_rows_node(const NodeCall& call, Result& y);
void take_node(const NodeCall& call, Result& y);
void rope_node(const NodeCall& call, Result& y);
void elementwise_node(const NodeCall& call, Result& y);  // add, sub, mul, scale, silu, gelu, tanh, sigmoid, glu
void kv_write_node(const NodeCall& call, Result& cache);
void attention_node(const NodeCall& call, Result& y);
void layer_norm_node(const NodeCall& call, Result& y);
void moe_router_node(const NodeCall& call, Result& id, Result& weight);  // the run shows id
void matmul_id_node(const NodeCall& call, Result& y);
void moe_combine_node(const NodeCall& call, Result& y);
void lora_matmul_node(const NodeCall& call, Result& y);
void logits_node(const NodeCall& call, Result& y);  // penalize, logit_bias and the three masks
void argmax_node(const NodeCall& call, Result& y);
void sample_node(const NodeCall& call, Result& token, Result& logprob);

/// r and the whole deviation of a value that is not observed, as the nodes behind it see it.
Operand unobserved(const Result& result, quern_dtype dtype, Dims dims);

}  // namespace quern::conformance
