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

/// Byte b of each of four words becomes word b, and the other way round.
void turn_bytes(std::uint32_t (&words)[4]) noexcept {
  const auto& [a, b, c, d] = words;
  constexpr std::uint32_t even = 0x00ff00ff, odd = 0xff00ff00;
  const std::uint32_t ab_even = (a & even) | (b & even) << 8, ab_odd = (a >> 8 & even) | (b & odd);
  const std::uint32_t cd_even = (c & even) | (d & even) << 8, cd_odd = (c >> 8 & even) | (d & odd);
  const std::uint32_t turned[4] = {(ab_even & 0xffff) | cd_even << 16, (ab_odd & 0xffff) | cd_odd << 16,
                                   ab_even >> 16 | (cd_even & 0xffff0000), ab_odd >> 16 | (cd_odd & 0xffff0000)};
  std::ranges::copy(turned, words);
}

/// Codes of [columns, words] as rows, four columns at a time, which are whole blocks.
void read_tile(std::span<const std::byte> words, std::uint64_t words_of_column, const Tile& tile, std::uint8_t* out) {
  constexpr std::uint64_t together = 4;
  for (std::uint64_t c = 0; c < tile.rows / rows_of_word; ++c)
    for (std::uint64_t column = 0; column < tile.columns; column += together) {
      std::uint32_t all[together];
      for (std::uint64_t i = 0; i < together; ++i)
        all[i] = word_at(words, (tile.column + column + i) * words_of_column + tile.row / rows_of_word + c);
      for (std::uint32_t half = 0; half < 2; ++half) {  // nibbles 0, 2, 4 and 6, then 1, 3, 5 and 7
        std::uint32_t codes[together];
        for (std::uint64_t i = 0; i < together; ++i) codes[i] = all[i] >> 4 * half & 0x0f0f0f0fu;
        turn_bytes(codes);
        for (std::uint64_t i = 0; i < together; ++i)
          std::memcpy(out + (rows_of_word * c + row_of_nibble[2 * i + half]) * tile.columns + column, &codes[i], together);
      }
    }
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
    blocks.read = [=](const Tile& tile, std::uint8_t* out) { read_tile(lying[0], words, tile, out); };
    blocks.scale = [=](std::uint64_t row, std::uint64_t g) { return scale[g * rows + row]; };
    blocks.zero = [=](std::uint64_t row, std::uint64_t g) {
      return word_at(lying[1], g * words + row / rows_of_word) >> 4 * nibble_of_row[row % rows_of_word] & 15u;
    };
    return packed_blocks(std::move(blocks), where, to);
  };
  return made;
}

}  // namespace quern::directory
