#include "changes.hpp"

#include "quern/models/floats.hpp"

#include <cstring>
#include <utility>

namespace quern::directory {
namespace {

/// Calls `copy` with the place of each row in the directory and in the graph.
template <typename Copy>
void for_each_row(std::uint64_t heads, std::uint64_t rows, const Copy& copy) {
  const std::uint64_t head_rows = rows / heads, half = head_rows / 2;
  for (std::uint64_t head = 0; head < rows; head += head_rows)
    for (std::uint64_t row = 0; row < head_rows; ++row) copy(head + row, head + (row < half ? 2 * row : 2 * (row - half) + 1));
}

std::vector<std::byte> interleaved(std::span<const std::byte> lying, std::uint64_t heads, std::uint64_t rows) {
  std::vector<std::byte> made(lying.size());
  const std::uint64_t row_bytes = lying.size() / rows;
  for_each_row(heads, rows, [&](std::uint64_t theirs, std::uint64_t ours) {
    std::memcpy(made.data() + ours * row_bytes, lying.data() + theirs * row_bytes, row_bytes);
  });
  return made;
}

template <typename Number>
std::vector<std::byte> bytes_of(const std::vector<Number>& numbers) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(numbers));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

std::vector<std::byte> rows_from_graph(std::span<const std::byte> ours, std::uint64_t heads, std::uint64_t rows) {
  std::vector<std::byte> made(ours.size());
  const std::uint64_t row_bytes = ours.size() / rows;
  for_each_row(heads, rows, [&](std::uint64_t to, std::uint64_t from) {
    std::memcpy(made.data() + to * row_bytes, ours.data() + from * row_bytes, row_bytes);
  });
  return made;
}

gguf::TensorChange tensor_change(const Change& change) {
  const bool widens = change.from != change.to;
  if (change.heads == 0 && !widens) return {};
  if (!widens) return [change](gguf::LyingPieces lying) { return interleaved(lying[0], change.heads, change.rows); };
  return [change](gguf::LyingPieces lying) {
    if (change.heads == 0) return bytes_of(models::decode_floats(change.from, lying[0]));
    return bytes_of(models::decode_floats(change.from, interleaved(lying[0], change.heads, change.rows)));
  };
}

gguf::TensorChange with_rows_interleaved(gguf::TensorChange change, std::uint64_t heads, std::uint64_t rows) {
  if (heads == 0) return change;
  return [change = std::move(change), heads, rows](gguf::LyingPieces lying) { return interleaved(change(lying), heads, rows); };
}

gguf::TensorChange made_of(std::vector<float> numbers) {
  return [numbers = std::move(numbers)](gguf::LyingPieces) { return bytes_of(numbers); };
}

gguf::TensorChange made_of(std::vector<std::uint32_t> numbers) {
  return [numbers = std::move(numbers)](gguf::LyingPieces) { return bytes_of(numbers); };
}

}  // namespace quern::directory
