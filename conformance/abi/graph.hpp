// Graphs of ABI scripts, built value by value. Their members are open, so that a script can spoil any of them.
#pragma once

#include "quern/quern_graph.h"
#include "quern/quern_ops.h"

#include <memory>
#include <vector>

namespace quern::conformance::abi {

/// A zeroed struct of the ABI with its header set.
template <class T>
T made(std::uint32_t type) {
  T s{};
  s.header.struct_size = sizeof(T);
  s.header.struct_type = type;
  return s;
}

template <class T>
quern_array array_of(const std::vector<T>& v) {
  return {v.data(), v.size(), sizeof(T)};
}

/// Values have their position as id. Nodes keep their id lists here: get() points into it, and stays valid until the next change.
class Graph {
 public:
  using Dims = std::vector<std::int64_t>;

  std::uint32_t value(std::uint32_t kind, const Dims& dims, quern_dtype dtype = QUERN_F32);
  std::uint32_t input(const Dims& dims, quern_dtype dtype = QUERN_F32) { return value(QUERN_VALUE_INPUT, dims, dtype); }
  std::uint32_t output(const Dims& dims, quern_dtype dtype = QUERN_F32) { return value(QUERN_VALUE_OUTPUT, dims, dtype); }
  std::uint32_t state(const Dims& dims, quern_dtype dtype = QUERN_F32) { return value(QUERN_VALUE_STATE, dims, dtype); }
  std::uint32_t constant(const Dims& dims, quern_dtype dtype = QUERN_F32) { return value(QUERN_VALUE_CONSTANT, dims, dtype); }
  std::uint32_t internal(const Dims& dims, quern_dtype dtype = QUERN_F32) { return value(QUERN_VALUE_INTERNAL, dims, dtype); }

  std::uint32_t symbol(std::int64_t min, std::int64_t max, std::uint32_t extent = QUERN_NONE, std::int64_t multiple_of = 1);
  void range(std::uint32_t value, std::uint32_t dimension, std::uint32_t symbol);

  /// The reference is valid until the next node.
  quern_node& node(std::uint32_t op, std::vector<std::uint32_t> inputs, std::vector<std::uint32_t> outputs,
                   std::vector<quern_attribute> attributes = {});
  quern_node& copy(std::uint32_t x, std::uint32_t y) { return node(QUERN_OP_COPY, {x}, {y}); }
  /// y = a b^T
  quern_node& matmul(std::uint32_t a, std::uint32_t b, std::uint32_t y) { return node(QUERN_OP_MATMUL, {a, b}, {y}); }
  static void predicate(quern_node& node, std::uint32_t value);

  const quern_graph* get();

  std::vector<quern_value> values;
  std::vector<quern_symbol> symbols;
  std::vector<quern_node> nodes;

 private:
  std::vector<std::unique_ptr<std::vector<std::uint32_t>>> ids_;
  std::vector<std::unique_ptr<std::vector<quern_attribute>>> attributes_;
  quern_graph graph_{};
};

inline quern_attribute real(std::uint32_t key, double f) { return {key, QUERN_ATTR_F64, 0, f}; }
inline quern_attribute integer(std::uint32_t key, std::int64_t i) { return {key, QUERN_ATTR_I64, i, 0}; }

}  // namespace quern::conformance::abi
