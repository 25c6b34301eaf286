// What is done to a tensor between the directory and the graph: a closed set.
#pragma once

#include "quern/models/gguf.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace quern::directory {

/// Rows of each of `heads` heads from halves to neighbours. Row i of a head's first half comes to 2 i, and row i of its second to 2 i + 1. What transformers' rotate_half pairs then lies side by side. 0 heads: rows stay.
struct Change {
  std::uint64_t heads = 0;
  std::uint64_t rows = 0;
  quern_dtype from = QUERN_F32, to = QUERN_F32;  // if they differ: 16 bits to f32, which is exact
};

/// The place in the graph of a row of the directory.
std::uint64_t row_in_graph(std::uint64_t row, std::uint64_t heads, std::uint64_t rows) noexcept;

/// Bytes of a tensor that is made, by rows of the directory: each is put at its place in the graph.
struct MadeRows {
  std::span<std::byte> bytes;
  std::uint64_t rows = 1, heads = 0;  ///< of heads: see Change

  std::span<std::byte> row(std::uint64_t theirs) const noexcept {
    const std::uint64_t size = bytes.size() / rows;
    return bytes.subspan(row_in_graph(theirs, heads, rows) * size, size);
  }
};

/// A gguf::TensorChange that makes rows.
using RowsChange = std::function<gguf::TensorParts(gguf::LyingPieces lying, const MadeRows& made)>;

/// The rows of `heads` heads as a directory has them, from the order of the graph: the inverse of what Change does to rows.
std::vector<std::byte> rows_from_graph(std::span<const std::byte> ours, std::uint64_t heads, std::uint64_t rows);

/// Empty where nothing has to be done.
gguf::TensorChange tensor_change(const Change& change);

/// The change with its rows at their places in the graph.
gguf::TensorChange with_rows_interleaved(RowsChange change, std::uint64_t heads, std::uint64_t rows);

/// A tensor of these numbers, whatever lies in the file.
gguf::TensorChange made_of(std::vector<float> numbers);
gguf::TensorChange made_of(std::vector<std::uint32_t> numbers);

}  // namespace quern::directory
