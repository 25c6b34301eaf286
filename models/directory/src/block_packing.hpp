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

/// Some rows and columns. The first row is a multiple of 16, the first column of columns_at_once.
struct Tile {
  std::uint64_t row = 0, rows = 0, column = 0, columns = 0;
};

/// A matrix of codes. `group` columns of a row share a scale and a zero point; groups are whole blocks of the format.
struct Codes {
  quern_dtype format = QUERN_DTYPE_NONE;
  std::uint64_t rows = 0, columns = 0, group = 0;
  /// The codes of a tile, a byte each, row by row.
  std::function<void(const Tile& tile, std::uint8_t* out)> read;
  std::function<float(std::uint64_t row, std::uint64_t group)> scale;
  std::function<std::uint32_t(std::uint64_t row, std::uint64_t group)> zero;  // of formats with zero points
  /// The group of each column where these are not neighbours; empty: column / group.
  std::span<const std::uint32_t> group_of = {};
  /// The column that each column of the blocks is, where these are put by groups; empty: its own.
  std::span<const std::uint32_t> order = {};
};
/// Rows of a part, and columns of a tile: whole blocks, and few enough that codes stay in a cache. Where a row is read as a whole, tiles have
/// fewer rows.
inline constexpr std::uint64_t rows_at_once = 128, columns_at_once = 256, whole_rows_at_once = 16;

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

/// A tile of codes that lie as bytes, row by row.
inline void copy_tile(std::span<const std::byte> codes, std::uint64_t columns, const Tile& tile, std::uint8_t* out) noexcept {
  for (std::uint64_t row = tile.row; row < tile.row + tile.rows; ++row, out += tile.columns)
    std::memcpy(out, codes.data() + row * columns + tile.column, tile.columns);
}

/// The eight codes of four bits in a word, or its four of eight, lowest bits first, a byte each.
inline void put_codes(std::uint32_t word, std::uint32_t bits, std::uint8_t* out) noexcept {
  if (bits == 8) {
    std::memcpy(out, &word, sizeof word);
    return;
  }
  std::uint64_t bytes = word;  // halves apart, then bytes, then nibbles
  bytes = (bytes | bytes << 16) & 0x0000ffff0000ffffu;
  bytes = (bytes | bytes << 8) & 0x00ff00ff00ff00ffu;
  bytes = (bytes | bytes << 4) & 0x0f0f0f0f0f0f0f0fu;
  std::memcpy(out, &bytes, sizeof bytes);
}

}  // namespace quern::directory
