// GPTQ: codes in words along a column of the product, which is a row here; zero points in words along the rows.
#include "block_packing.hpp"
#include "quantised_modules.hpp"
#include "stored_numbers.hpp"

#include <algorithm>
#include <optional>

namespace quern::directory {
namespace {

using safetensors::Dtype;

struct Words {
  std::uint32_t bits;

  std::uint32_t in_word() const noexcept { return 32 / bits; }
  std::uint32_t mask() const noexcept { return (1u << bits) - 1; }
  std::uint32_t code(std::uint32_t word, std::uint64_t i) const noexcept { return word >> bits * i & mask(); }
};

void read_tile(std::span<const std::byte> words, const Words& of, std::uint64_t rows, const Tile& tile, std::uint8_t* out) {
  for (std::uint64_t column = 0; column < tile.columns; column += of.in_word())
    for (std::uint64_t row = 0; row < tile.rows; ++row)
      put_codes(word_at(words, (tile.column + column) / of.in_word() * rows + tile.row + row), of.bits, out + row * tile.pitch + column);
}

/// put_pairs() for four rows, a word each. Rows are multiples of eight, whose zero points are in a word.
void put_rows(FourWords words, FourWords further, std::uint64_t pitch, std::uint8_t* to) noexcept {
  using Bytes = std::uint8_t __attribute__((vector_size(16)));
  using Rows = std::uint64_t __attribute__((vector_size(16)));
  const std::uint32_t mask = 0x0f0f0f0f;
  const auto even = reinterpret_cast<Bytes>((words & mask) | (further & mask) << 4);
  const auto odd = reinterpret_cast<Bytes>((words >> 4 & mask) | (further & ~mask));
  const Rows rows[2] = {
      reinterpret_cast<Rows>(__builtin_shufflevector(even, odd, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)),
      reinterpret_cast<Rows>(__builtin_shufflevector(even, odd, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31))};
  for (std::uint64_t row = 0; row < words_together; ++row) {
    const std::uint64_t bytes = rows[row / 2][row % 2];
    std::memcpy(to + row * pitch, &bytes, sizeof bytes);
  }
}

void read_pairs(std::span<const std::byte> words, std::uint64_t rows, const Tile& tile, std::uint8_t* out) {
  for (std::uint64_t column = 0; column < tile.columns; column += 32)
    for (std::uint64_t i = 0; i < 2; ++i) {
      const std::uint64_t first = ((tile.column + column) / 8 + i) * rows + tile.row, further = first + 2 * rows;
      for (std::uint64_t row = 0; row < tile.rows; row += words_together)
        put_rows(words_at(words, first + row), words_at(words, further + row), tile.pitch, out + row * tile.pitch + column / 2 + 8 * i);
    }
}

/// read_pairs() of columns that lie where `order` says: four of them, and those 16 further on, at a time.
void read_ordered(std::span<const std::byte> words, std::uint64_t rows, std::span<const std::uint32_t> order, const Tile& tile,
                  std::uint8_t* out) {
  for (std::uint64_t column = 0; column < tile.columns; column += column % 32 == 12 ? 20 : 4)
    for (std::uint64_t row = 0; row < tile.rows; row += words_together) {
      FourWords pairs = {};
#pragma GCC unroll 8
      for (std::uint32_t i = 0; i < 8; ++i) {
        const std::uint32_t from = order[tile.column + column + i / 2 + i % 2 * 16];
        pairs |= (words_at(words, from / 8 * rows + tile.row + row) >> from % 8 * 4 & 15) << 4 * i;
      }
      for (std::uint64_t i = 0; i < words_together; ++i) {
        const std::uint32_t bytes = pairs[i];
        std::memcpy(out + (row + i) * tile.pitch + column / 32 * 16 + column % 32, &bytes, sizeof bytes);
      }
    }
}

/// Zero points as they are stored, by what is added to them.
struct StoredZeros {
  std::span<const std::byte> words;
  Words of;
  std::uint64_t rows;
  std::uint32_t more = 0;

  std::uint32_t stored(std::uint64_t row, std::uint64_t group) const noexcept {
    return of.code(word_at(words, (group * rows + row) / of.in_word()), row % of.in_word());
  }
};

/// What is added to stored zero points, and what is said of it. The content of symmetric ones decides, whatever the field says.
struct Version {
  std::uint32_t more;
  gguf::Note note;
};

/// The zero point of symmetric codes is the middle. Some files say that they store it less one, and store it itself; others the other way.
std::optional<std::uint32_t> more_for_middle(const StoredZeros& zeros, std::uint64_t groups) {
  const std::uint32_t middle = 1u << (zeros.of.bits - 1), first = zeros.stored(0, 0);
  if (first != middle && first != middle - 1) return std::nullopt;
  for (std::uint64_t group = 0; group < groups; ++group)
    for (std::uint64_t row = 0; row < zeros.rows; ++row)
      if (zeros.stored(row, group) != first) return std::nullopt;
  return middle - first;
}

Version version_of(const ModuleContext& context, const StoredTensor& zeros, StoredZeros stored, std::uint64_t groups) {
  const std::uint32_t stated = context.quantisation.zeros_less_one ? 1 : 0;
  const auto way = [](std::uint32_t more) {
    return more == 1 ? "store zero points less one (GPTQ v1)" : "store zero points as they are (GPTQ v2)";
  };
  if (context.quantisation.symmetric) {
    const std::vector<std::byte> words = context.read(zeros);
    stored.words = words;
    if (const std::optional<std::uint32_t> found = more_for_middle(stored, groups))
      return {*found,
              {concat(way(*found), ", by their content", *found == stated ? "" : "; 'checkpoint_format' has the other version"),
               *found != stated}};
  }
  return {stated, {concat(way(stated), ", as 'checkpoint_format' says"), false}};
}

}  // namespace

QuantisedWeight gptq_weight(const ModuleContext& context, const QuantisedModule& module) {
  const StoredTensor &codes = context.require(module, "qweight"), &zeros = context.require(module, "qzeros"),
                     &scales = context.require(module, "scales");
  const StoredTensor* const index = module.find("g_idx");
  const Quantisation& how = context.quantisation;
  if (codes.info.shape.size() != 2 || codes.info.elements() == 0) throw context.refused(QUERN_BAD_MODEL, codes, "is not a matrix");
  const std::uint64_t words = codes.info.shape[0], rows = codes.info.shape[1];
  if (how.bits == 0 && (index == nullptr || index->info.elements() == 0))
    throw context.refused(QUERN_BAD_MODEL, codes, "is there without 'g_idx', which says how many columns it has");
  const std::uint64_t columns = how.bits != 0 ? words * 32 / how.bits : index->info.elements();
  const Words of{how.bits != 0 ? how.bits : static_cast<std::uint32_t>(std::min<std::uint64_t>(words * 32 / columns, 32))};
  if (of.bits != 4 && of.bits != 8)
    throw context.refused(QUERN_UNSUPPORTED, codes, concat("has codes of ", of.bits, " bits; codes of 4 and 8 bits are read"));
  const std::uint64_t groups_found = scales.info.shape.empty() ? 0 : scales.info.shape[0];
  const std::uint64_t group = how.group ? (*how.group == 0 ? columns : *how.group) : groups_found == 0 ? 0 : columns / groups_found;
  if (group == 0 || columns % group != 0)
    throw context.refused(QUERN_BAD_MODEL, codes, concat("has ", columns, " columns, which are no whole groups of ", group));
  context.check(codes, {columns * of.bits / 32, rows}, {Dtype::i32});
  context.check(zeros, {columns / group, rows * of.bits / 32}, {Dtype::i32});
  context.check(scales, {columns / group, rows}, {Dtype::f16, Dtype::bf16, Dtype::f32});
  if (rows % of.in_word() != 0)
    throw context.refused(QUERN_BAD_MODEL, codes, concat("has ", rows, " rows, which fill no whole words of zeros"));
  std::vector<std::uint32_t> group_of;
  if (index != nullptr) group_of = columns_in_other_groups(context, *index, columns, group);
  QuantisedWeight made{&codes, {&zeros, &scales}, rows, columns, zero_point_format(of.bits, group), {}, {}};
  if (!group_of.empty()) place_columns(context, made, group_of, group, *index, scales);
  if (made.dtype == QUERN_DTYPE_NONE)
    throw context.refused(QUERN_UNSUPPORTED, codes, concat("has groups of ", group, " columns; multiples of 32 are read"));
  Version version = version_of(context, zeros, {{}, of, rows}, columns / group);
  made.zeros = std::move(version.note);
  made.change = [=, format = made.dtype, scale_type = scales.info.dtype, more = version.more, group_of = std::move(group_of),
                 order = made.order, expands = !made.expanded.empty(), where_scales = context.where(scales),
                 where_zeros = context.where(zeros)](gguf::LyingPieces lying, const MadeRows& to) {
    const StoredNumbers scale(scale_type, lying[2]);
    const StoredZeros stored{lying[1], of, rows, more};
    const std::span<const std::uint32_t> places = order, none;
    Codes blocks{format, rows, columns, group, {}, {}, {}, group_of, of.bits == 4 ? none : places};
    blocks.read = [=](const Tile& tile, std::uint8_t* out) { read_tile(lying[0], of, rows, tile, out); };
    blocks.tile_rows = places.empty() ? rows_at_once : line_rows;
    blocks.read_pairs = [=](const Tile& tile, std::uint8_t* out) {
      places.empty() ? read_pairs(lying[0], rows, tile, out) : read_ordered(lying[0], rows, places, tile, out);
    };
    blocks.scales = by_groups(group, [=](std::uint64_t row, std::uint64_t g) { return scale[g * rows + row]; });
    blocks.zeros = by_groups(group, [=](std::uint64_t row, std::uint64_t g) {
      const std::uint32_t zero = stored.stored(row, g);
      if (zero + stored.more > of.mask())
        throw Error(QUERN_BAD_MODEL, concat(where_zeros, "has ", zero, " for row ", row, ", group ", g,
                                            "; zero points are stored less one, and ", of.mask() - 1, " is the largest"));
      return zero + stored.more;
    });
    return expands ? expanded(std::move(blocks), where_scales, to) : packed_blocks(std::move(blocks), where_scales, to);
  };
  return made;
}

}  // namespace quern::directory
