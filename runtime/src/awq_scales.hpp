// AWQ: columns of weights are scaled up where their inputs are large, and what gives the inputs is scaled down.
#pragma once

#include "quern/models/gguf.hpp"
#include "quern/models/importance.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace quern::runtime {

/// A number in row r and column c becomes x * columns[c] / rows[r]. A vector has rows alone. Empty: they stay.
struct Folding {
  std::vector<float> columns, rows;
};

/// By the tensor's name; tensors that stay as they are have none.
using Foldings = std::map<std::string, Folding>;

/// Applies it to all numbers of a tensor, row by row.
void fold(const Folding& folding, const gguf::TensorInfo& tensor, std::vector<float>& numbers);

/// For the products of each layer that have one input: the scale of a column is its input's mean size to a power. The power of 0, 0.05 ... 0.95
/// is taken that leaves the least error, measured on some rows with the codes that they get. Norms are rounded to f16, and the scales follow them.
/// Throws Error(QUERN_BAD_MODEL) for a matrix of another model, QUERN_INVALID_ARGUMENT for a number that has no place in codes.
Foldings awq_scales(const gguf::File& file, const quantize::Importance& importance, std::uint64_t group, std::uint32_t threads);

}  // namespace quern::runtime
