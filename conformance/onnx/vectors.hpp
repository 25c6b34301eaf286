// The node tests of ONNX that our ops can express, from the case file beside this (import_vectors.py writes it, vector_file.py says how).
//
// A test is a graph of one or more of our nodes, with the data of its inputs and what ONNX expects of some of its values.
#pragma once

#include "case_table/case.hpp"

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quern::conformance::onnx {

struct Value {
  enum class Role { input, state, output, view } role = Role::input;
  quern_dtype dtype = QUERN_DTYPE_NONE;
  Dims dims;
  Layout layout;
  std::span<const std::byte> data;      // packed; of inputs, and of states before the run
  std::span<const std::byte> expected;  // packed; empty where ONNX says nothing
  std::size_t of = 0;                   // of a view: the packed value whose memory it has
};

inline constexpr std::size_t no_value = static_cast<std::size_t>(-1);

struct Node {
  std::uint32_t op = 0;
  std::vector<std::size_t> inputs, outputs;  // indices of values; no_value: absent
  std::vector<Attribute> attributes;
};

struct Vector {
  std::string name;           // "attention_4d_causal"
  double rtol = 0, atol = 0;  // ONNX's: |r - e| <= atol + rtol |e|
  std::vector<Value> values;
  std::vector<Node> nodes;
};

/// Those of the case file, which is part of the program. Parsed once. Throws std::logic_error for a file that is not well-formed.
const std::vector<Vector>& vectors();
/// Of other text and data, for tests; `data` is kept by the caller.
std::vector<Vector> parse_vectors(std::string_view text, std::span<const std::byte> data);

/// Node `n` as a case: its values with their data, without name, group, profile and reference. Values that another node makes have none.
Case node_case(const Vector& vector, std::size_t n);

/// The f64 reference of a node; empty where no family has its op yet.
using References = std::vector<Reference>;  // one a node

/// Every value by our references alone, each stored in its dtype before the next node reads it. Packed.
std::vector<Tensor> reference_values(const Vector& vector, const References& references);
/// What the reference gives for a node as tensors of its dtypes, one an output (absent() where there is none).
std::vector<Tensor> stored(const Case& node, const Expected& expected);

/// Empty if `value` is ONNX's within its tolerance, or ONNX says nothing of it; else the first element that is not.
std::string disagreement(const Vector& vector, std::size_t value, const Tensor& found);

}  // namespace quern::conformance::onnx
