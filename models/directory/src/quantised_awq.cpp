// AWQ of the version gemm: codes and zero points in words of eight columns of the product, which are rows here.
#include "awq_words.hpp"
#include "block_packing.hpp"
#include "quantised_modules.hpp"
#include "stored_numbers.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace quern::directory {
namespace {

using safetensors::Dtype;

/// In each place, byte b of the four words becomes a byte of word b, and the other way round.
void turn_bytes(FourWords (&words)[4]) noexcept {
  const auto& [a, b, c, d] = words;
  constexpr std::uint32_t even = 0x00ff00ff, low = 0x0000ffff;
  const FourWords ab_even = (a & even) | (b & even) << 8, ab_odd = (a >> 8 & even) | (b & ~even);
  const FourWords cd_even = (c & even) | (d & even) << 8, cd_odd = (c >> 8 & even) | (d & ~even);
  const FourWords turned[4] = {(ab_even & low) | cd_even << 16, (ab_odd & low) | cd_odd << 16, ab_even >> 16 | (cd_even & ~low),
                               ab_odd >> 16 | (cd_odd & ~low)};
  std::ranges::copy(turned, words);
}

/// Words of [columns, words].
struct ColumnWords {
  std::span<const std::byte> bytes;
  std::uint64_t of_column;

  std::uint64_t columns() const noexcept { return bytes.size() / sizeof(std::uint32_t) / of_column; }
  const std::byte* at(std::uint64_t column, std::uint64_t word) const noexcept { return bytes.data() + 4 * (column * of_column + word); }
};

/// Puts the codes of four columns, and of those 16 further on, as pairs at `to` in the rows of up to four words.
void put_columns(const ColumnWords& words, std::uint64_t column, std::uint64_t word, std::uint64_t count, std::uint64_t pitch,
                 std::uint8_t* to) {
  constexpr std::uint32_t mask = 0x0f0f0f0f;
  FourWords halves[2][4];  // nibbles 0, 2, 4 and 6, then 1, 3, 5 and 7
#pragma GCC unroll 4
  for (std::uint64_t i = 0; i < 4; ++i) {
    const FourWords low = words_at(words.bytes, (column + i) * words.of_column + word, count),
                    high = words_at(words.bytes, (column + i + 16) * words.of_column + word, count);
    halves[0][i] = (low & mask) | (high & mask) << 4;
    halves[1][i] = (low >> 4 & mask) | (high & ~mask);
  }
#pragma GCC unroll 2
  for (std::uint64_t half = 0; half < 2; ++half) {
    turn_bytes(halves[half]);
#pragma GCC unroll 4
    for (std::uint64_t i = 0; i < 4; ++i)
#pragma GCC unroll 4
      for (std::uint64_t w = 0; w < words_together; ++w) {
        const std::uint32_t pairs = halves[half][i][w];
        if (w < count) std::memcpy(to + (rows_of_word * w + row_of_nibble[2 * i + half]) * pitch, &pairs, sizeof pairs);
      }
  }
}

void read_pairs(const ColumnWords& words, const Tile& tile, std::uint8_t* out) {
  const std::uint64_t first = tile.row / rows_of_word, end = first + tile.rows / rows_of_word;
  const std::uint64_t next = tile.column + tile.columns;
  for (std::uint64_t column = next; column < std::min(next + tile.columns, words.columns()); ++column) {
    __builtin_prefetch(words.at(column, first));  // no processor foresees lines that lie so far apart
    __builtin_prefetch(words.at(column, end - 1));
  }
  for (std::uint64_t word = first; word < end; word += words_together)
    for (std::uint64_t column = 0; column < tile.columns; column += 32)
      for (std::uint64_t i = 0; i < 16; i += 4)
        put_columns(words, tile.column + column + i, word, std::min(words_together, end - word), tile.pitch,
                    out + rows_of_word * (word - first) * tile.pitch + column / 2 + i);
}

}  // namespace

QuantisedWeight awq_weight(const ModuleContext& context, const QuantisedModule& module) {
  const StoredTensor &codes = context.require(module, "qweight"), &zeros = context.require(module, "qzeros"),
                     &scales = context.require(module, "scales");
  const std::vector<std::uint64_t>& shape = codes.info.shape;
  if (shape.size() != 2 || shape[0] == 0 || shape[1] == 0) throw context.refused(QUERN_BAD_MODEL, codes, "is not a matrix");
  const std::uint64_t columns = shape[0], words = shape[1], rows = words * rows_of_word;
  const std::uint64_t group = context.quantisation.group.value_or(0) == 0 ? columns : *context.quantisation.group;
  if (columns % group != 0)
    throw context.refused(QUERN_BAD_MODEL, codes, concat("has ", columns, " columns, which are no whole groups of ", group));
  context.check(codes, shape, {Dtype::i32});
  context.check(zeros, {columns / group, words}, {Dtype::i32});
  context.check(scales, {columns / group, rows}, {Dtype::f16, Dtype::bf16, Dtype::f32});
  QuantisedWeight made{&codes, {&zeros, &scales}, rows, columns, zero_point_format(4, group), {}, {}};
  if (made.dtype == QUERN_DTYPE_NONE)
    throw context.refused(QUERN_UNSUPPORTED, codes, concat("has groups of ", group, " columns; multiples of 32 are read"));
  made.change = [=, format = made.dtype, scale_type = scales.info.dtype, where = context.where(scales)](gguf::LyingPieces lying,
                                                                                                        const MadeRows& to) {
    const StoredNumbers scale(scale_type, lying[2]);
    Codes blocks{format, rows, columns, group, {}, {}, {}, {}};
    blocks.tile_rows = rows_at_once;
    blocks.read_pairs = [=](const Tile& tile, std::uint8_t* out) { read_pairs({lying[0], words}, tile, out); };
    blocks.scales = by_groups(group, [=](std::uint64_t row, std::uint64_t g) { return scale[g * rows + row]; });
    blocks.zeros = by_groups(group, [=](std::uint64_t row, std::uint64_t g) {
      return word_at(lying[1], g * words + row / rows_of_word) >> 4 * nibble_of_row[row % rows_of_word] & 15u;
    });
    return packed_blocks(std::move(blocks), where, to);
  };
  return made;
}

}  // namespace quern::directory
