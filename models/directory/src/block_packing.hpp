// Codes, scales and zero points, wherever they lie, as rows of blocks.
#pragma once

#include "changes.hpp"

#include "quern/models/gguf.hpp"

#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace quern::directory {

/// Some rows and columns. The first row is a multiple of line_rows, or the tile has one row; the first column is one of columns_at_once.
struct Tile {
  std::uint64_t row = 0, rows = 0, column = 0, columns = 0;
  std::uint64_t pitch = 0;  ///< bytes from a row to the next where it is read to
};

/// A matrix of codes. `group` columns of a row share a scale and a zero point; groups are whole blocks of the format.
struct Codes {
  quern_dtype format = QUERN_DTYPE_NONE;
  std::uint64_t rows = 0, columns = 0, group = 0;
  /// The codes of a tile, a byte each. Of formats of four bits only where columns are put by groups, or for expanded().
  std::function<void(const Tile& tile, std::uint8_t* out)> read;
  /// By by_groups().
  std::function<void(const Tile& tile, float* out)> scales;
  std::function<void(const Tile& tile, std::uint32_t* out)> zeros;  // of formats with zero points
  /// The group of each column where these are not neighbours; empty: column / group.
  std::span<const std::uint32_t> group_of = {};
  /// The column that each column of the blocks is, where these are put by groups; empty: its own.
  std::span<const std::uint32_t> order = {};
  /// The codes of a tile of whole blocks of four bits as these have them: byte j of 16 has codes j and j + 16 of 32.
  std::function<void(const Tile& tile, std::uint8_t* out)> read_pairs = {};
  /// Codes of eight bits that lie as blocks have them, row by row: nothing is read.
  std::span<const std::byte> lying = {};
  /// Rows of a tile, at most rows_at_once. A tile of one row has all its columns, others are cut along columns too: where neighbours in the
  /// file belong to several rows.
  std::uint64_t tile_rows = 1;
};
/// Rows of a part, and columns of a tile that is cut along columns: lines of a cache are read as a whole, and codes stay in the first cache.
/// `line_rows` rows have their words of four bytes in one line.
inline constexpr std::uint64_t rows_at_once = 128, columns_at_once = 128, line_rows = 16;

/// `of(row, group)` for each row of a tile and each group that it has columns of, row by row.
template <typename Of>
auto by_groups(std::uint64_t group, Of of) {
  return [=](const Tile& tile, auto* out) {
    const std::uint64_t first = tile.column / group, end = (tile.column + tile.columns + group - 1) / group;
    for (std::uint64_t row = tile.row; row < tile.row + tile.rows; ++row)
      for (std::uint64_t g = first; g < end; ++g) *out++ = of(row, g);
  };
}

/// The numbers themselves, (code - zero) * scale, in f32, f16 or bf16 (`format`): for groups that no block has.
/// A part throws Error(QUERN_BAD_MODEL) beginning with `where` for a number that the type does not hold.
gguf::TensorParts expanded(Codes codes, std::string where, const MadeRows& made);

/// A part throws Error(QUERN_BAD_MODEL) beginning with `where` for a scale or zero point that the format does not hold.
gguf::TensorParts packed_blocks(Codes codes, std::string where, const MadeRows& made);

/// The format with zero points for codes of 4 or 8 bits whose groups are whole blocks; QUERN_DTYPE_NONE where there is none.
quern_dtype zero_point_format(std::uint32_t bits, std::uint64_t group) noexcept;

inline std::uint32_t word_at(std::span<const std::byte> bytes, std::uint64_t index) noexcept {
  std::uint32_t word;
  std::memcpy(&word, bytes.data() + 4 * index, sizeof word);
  return word;
}

/// Words that are computed with at once.
using FourWords = std::uint32_t __attribute__((vector_size(16)));
inline constexpr std::uint64_t words_together = 4;

/// The first `count` of four words; the others are 0.
inline FourWords words_at(std::span<const std::byte> bytes, std::uint64_t first, std::uint64_t count = words_together) noexcept {
  FourWords words = {};
  if (count == words_together) std::memcpy(&words, bytes.data() + 4 * first, sizeof words);  // no call
  else std::memcpy(&words, bytes.data() + 4 * first, 4 * count);
  return words;
}

/// The bytes of two words in turn, the first word's first.
inline std::uint64_t bytes_in_turn(std::uint32_t even, std::uint32_t odd) noexcept {
  const auto apart = [](std::uint64_t bytes) {
    bytes = (bytes | bytes << 16) & 0x0000ffff0000ffffu;
    return (bytes | bytes << 8) & 0x00ff00ff00ff00ffu;
  };
  return apart(even) | apart(odd) << 8;
}

/// The eight codes of four bits in a word, or its four of eight, lowest bits first, a byte each.
inline void put_codes(std::uint32_t word, std::uint32_t bits, std::uint8_t* out) noexcept {
  if (bits == 8) {
    std::memcpy(out, &word, sizeof word);
    return;
  }
  const std::uint64_t bytes = bytes_in_turn(word & 0x0f0f0f0fu, word >> 4 & 0x0f0f0f0fu);
  std::memcpy(out, &bytes, sizeof bytes);
}

/// Eight bytes with the codes of four bits of a word, lowest bits first, and above each the code of a word 16 columns on.
inline void put_pairs(std::uint32_t word, std::uint32_t further, std::uint8_t* out) noexcept {
  const std::uint32_t mask = 0x0f0f0f0fu;
  const std::uint64_t bytes = bytes_in_turn((word & mask) | (further & mask) << 4, (word >> 4 & mask) | (further & ~mask));
  std::memcpy(out, &bytes, sizeof bytes);
}

}  // namespace quern::directory
