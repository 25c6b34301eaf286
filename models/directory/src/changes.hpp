// What is done to a tensor between the directory and the graph: a closed set.
#pragma once

#include "quern/models/gguf.hpp"

#include <cstdint>
#include <vector>

namespace quern::directory {

/// Rows of each of `heads` heads from halves to neighbours. Row i of a head's first half comes to 2 i, and row i of its second to 2 i + 1. What transformers' rotate_half pairs then lies side by side. 0 heads: rows stay.
struct Change {
  std::uint64_t heads = 0;
  std::uint64_t rows = 0;
  quern_dtype from = QUERN_F32, to = QUERN_F32;  // if they differ: 16 bits to f32, which is exact
};

/// The rows of `heads` heads as a directory has them, from the order of the graph: the inverse of what Change does to rows.
std::vector<std::byte> rows_from_graph(std::span<const std::byte> ours, std::uint64_t heads, std::uint64_t rows);

/// Empty where nothing has to be done.
gguf::TensorChange tensor_change(const Change& change);

/// The change, and then rows of `heads` heads as Change does them; the change alone for 0 heads.
gguf::TensorChange with_rows_interleaved(gguf::TensorChange change, std::uint64_t heads, std::uint64_t rows);

/// A tensor of these numbers, whatever lies in the file.
gguf::TensorChange made_of(std::vector<float> numbers);
gguf::TensorChange made_of(std::vector<std::uint32_t> numbers);

}  // namespace quern::directory
