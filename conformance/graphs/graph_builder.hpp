// Builds a whole graph and the case around it.
#pragma once

#include "case_table/whole_graph.hpp"
#include "ops/family.hpp"

#include <string>

namespace quern::conformance {

/// As the first of a value's dims: the number of rows of the graph, and of its rows whose outputs are wanted.
inline constexpr std::int64_t rows_dim = -1, outputs_dim = -2;

class GraphBuilder {
 public:
  /// A graph of `rows` rows, of one size only.
  explicit GraphBuilder(std::int64_t rows) : most_{rows, 0} {}
  /// A graph of a ranged number of rows that runs with each of `counts`; none is above `most`.
  GraphBuilder(std::int64_t most, const std::vector<std::int64_t>& counts);

  /// Before any value of outputs_dim is added: the rows whose outputs are wanted are `most`. Of a graph with ranged rows they are ranged too, with
  /// one of `counts` for each of those of the rows; none is above `most`.
  void have_outputs(std::int64_t most, const std::vector<std::int64_t>& counts = {});

  std::int64_t rows() const noexcept { return most_.rows; }
  bool has_outputs() const noexcept { return most_.outputs != 0; }
  /// Of a graph of fixed extents the one that it is.
  std::vector<Extents> runs() const { return graph_.runs.empty() ? std::vector{most_} : graph_.runs; }

  // Values with contents. Each returns its id.
  int input(std::string name, ValueSpec spec);
  int weight(std::string name, quern_dtype dtype, Dims dims, DataKind data = DataKind::gaussian);
  int state(std::string name, ValueSpec spec);

  /// A node with one new output of f32 or `dtype`; its name is the node's. Returns the output's id.
  int node(std::uint32_t op, std::string name, std::vector<int> inputs, Dims dims, std::vector<Attribute> attributes = {},
           quern_dtype dtype = QUERN_F32);
  /// A node that writes values which exist: states, or what output() and internal() made.
  void node_into(std::uint32_t op, std::vector<int> inputs, std::vector<int> outputs, std::vector<Attribute> attributes = {});
  int internal(std::string name, quern_dtype dtype, Dims dims);
  /// Output of a node, in the memory of `of`.
  int in_place(std::string name, int of);
  /// The same bytes with other dims.
  int reshape(int value, Dims dims);
  /// Columns `first` .. of a value [rows, n] of a node or an input, n not in blocks: a view with the dims [rows, ...] whose rows lie n elements apart.
  int columns(int value, std::int64_t first, Dims dims);
  /// Rows `first` .. first + count - 1 of a matrix, packed.
  int matrix_rows(int value, std::int64_t first, std::int64_t count);
  /// Makes a value an output of the graph.
  void output(int value) { at(value).spec.kind = QUERN_VALUE_OUTPUT; }
  /// Of the node added last.
  void predicate(int value) { graph_.nodes.back().predicate = value; }

  /// The conversions that matmul and attention nodes added from now on allow in fast numerics.
  void allow(std::uint32_t conversions) { conversions_ = conversions; }
  WholeGraph& graph() noexcept { return graph_; }

  /// The case, without a name. Nothing may be added afterwards.
  Case finish(Profile profile, int level);

 private:
  GraphValue& at(int value) { return graph_.values[static_cast<std::size_t>(value)]; }
  int add(std::string name, ValueSpec spec);
  int part(int value, Dims dims, std::uint64_t offset, std::int64_t row_bytes);

  WholeGraph graph_;
  Extents most_;
  std::uint32_t conversions_ = 0;
};

}  // namespace quern::conformance
