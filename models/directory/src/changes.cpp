#include "changes.hpp"

#include "quern/models/floats.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace quern::directory {
namespace {

/// About as many bytes as a part reads at once: some hundred microseconds of work.
constexpr std::uint64_t part_bytes = 1 << 20;

/// Parts of whole rows, whose numbers are copied or widened.
gguf::TensorParts copied(std::span<const std::byte> lying, const MadeRows& made, quern_dtype from, bool widens) {
  const std::uint64_t row_bytes = lying.size() / made.rows, at_once = std::clamp<std::uint64_t>(part_bytes / row_bytes, 1, made.rows);
  const auto make = [=](std::uint64_t part) {
    for (std::uint64_t row = part * at_once; row < std::min(made.rows, (part + 1) * at_once); ++row) {
      const std::span<const std::byte> theirs = lying.subspan(row * row_bytes, row_bytes);
      const std::span<std::byte> ours = made.row(row);
      if (!widens) std::memcpy(ours.data(), theirs.data(), row_bytes);
      else models::decode_floats(from, theirs, {reinterpret_cast<float*>(ours.data()), ours.size() / sizeof(float)});
    }
  };
  return {(made.rows + at_once - 1) / at_once, make};
}

template <typename Number>
gguf::TensorChange numbers_of(std::vector<Number> numbers) {
  return [numbers = std::move(numbers)](gguf::LyingPieces, std::span<std::byte> made) {
    return gguf::TensorParts{1, [&numbers, made](std::uint64_t) { std::memcpy(made.data(), numbers.data(), made.size()); }};
  };
}

}  // namespace

std::uint64_t row_in_graph(std::uint64_t row, std::uint64_t heads, std::uint64_t rows) noexcept {
  if (heads == 0) return row;
  const std::uint64_t head_rows = rows / heads, half = head_rows / 2, inside = row % head_rows;
  return row - inside + (inside < half ? 2 * inside : 2 * (inside - half) + 1);
}

std::vector<std::byte> rows_from_graph(std::span<const std::byte> ours, std::uint64_t heads, std::uint64_t rows) {
  std::vector<std::byte> made(ours.size());
  const std::uint64_t row_bytes = ours.size() / rows;
  for (std::uint64_t row = 0; row < rows; ++row)
    std::memcpy(made.data() + row * row_bytes, ours.data() + row_in_graph(row, heads, rows) * row_bytes, row_bytes);
  return made;
}

gguf::TensorChange tensor_change(const Change& change) {
  const bool widens = change.from != change.to;
  if (change.heads == 0 && !widens) return {};
  const auto rows = [change, widens](gguf::LyingPieces lying, const MadeRows& made) { return copied(lying[0], made, change.from, widens); };
  return with_rows_interleaved(rows, change.heads, change.rows);
}

gguf::TensorChange with_rows_interleaved(RowsChange change, std::uint64_t heads, std::uint64_t rows) {
  return [change = std::move(change), heads, rows](gguf::LyingPieces lying, std::span<std::byte> made) {
    return change(lying, {made, rows, heads});
  };
}

gguf::TensorChange made_of(std::vector<float> numbers) { return numbers_of(std::move(numbers)); }

gguf::TensorChange made_of(std::vector<std::uint32_t> numbers) { return numbers_of(std::move(numbers)); }

}  // namespace quern::directory
