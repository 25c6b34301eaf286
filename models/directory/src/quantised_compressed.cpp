// compressed-tensors: integers packed along a row with an offset, integers of eight bits, or numbers of eight bits.
#include "block_packing.hpp"
#include "scale_grid.hpp"
#include "stored_numbers.hpp"

#include <algorithm>
#include <cstring>

namespace quern::directory {
namespace {

using safetensors::Dtype;

struct Size {
  std::uint64_t rows, columns;
};

Size packed_size(const ModuleContext& context, const StoredTensor& shape) {
  context.check(shape, {2}, {Dtype::i64});
  const std::vector<std::byte> bytes = context.read(shape);
  std::int64_t sizes[2];
  std::memcpy(sizes, bytes.data(), sizeof sizes);
  constexpr std::int64_t most = 1 << 30;
  if (sizes[0] < 1 || sizes[0] > most || sizes[1] < 1 || sizes[1] > most)
    throw context.refused(QUERN_BAD_MODEL, shape, concat("has ", sizes[0], " x ", sizes[1], " weights; both must be 1 to ", most));
  return {static_cast<std::uint64_t>(sizes[0]), static_cast<std::uint64_t>(sizes[1])};
}

std::uint64_t words_of(std::uint64_t numbers, std::uint32_t bits) noexcept { return (numbers * bits + 31) / 32; }

/// The codes of a row of words.
void read_row(std::span<const std::byte> words, std::uint64_t first_word, std::uint64_t columns, std::uint32_t bits,
              std::uint8_t* out) noexcept {
  const std::uint64_t in_word = 32 / bits;
  std::uint8_t last[8];
  for (std::uint64_t i = 0; i < columns; i += in_word, out += in_word) {
    const bool whole = columns - i >= in_word;
    put_codes(word_at(words, first_word + i / in_word), bits, whole ? out : last);
    if (!whole) std::copy_n(last, columns - i, out);
  }
}

void require_format(const ModuleContext& context, const StoredTensor& codes, quern_dtype format, std::uint64_t group) {
  if (format == QUERN_DTYPE_NONE)
    throw context.refused(QUERN_UNSUPPORTED, codes, concat("has groups of ", group, " columns; multiples of 32 are read"));
}

QuantisedWeight packed(const ModuleContext& context, const QuantisedModule& module, const StoredTensor& codes) {
  const StoredTensor &scales = context.require(module, "weight_scale"), &shape = context.require(module, "weight_shape");
  const StoredTensor* const zeros = module.find("weight_zero_point");
  const auto [rows, columns] = packed_size(context, shape);
  const std::uint64_t words = codes.info.shape.size() == 2 ? codes.info.shape[1] : 0;
  const std::uint32_t bits = words == words_of(columns, 8) ? 8 : 4;
  context.check(codes, {rows, words_of(columns, bits)}, {Dtype::i32});
  const ScaleGrid grid = scale_grid(context, scales, rows, columns);
  const std::uint64_t group = grid.column_step;
  if (zeros != nullptr) context.check(*zeros, {words_of(rows, bits), columns / group}, {Dtype::i32});
  const StoredTensor* const index = module.find("weight_g_idx");
  std::vector<std::uint32_t> group_of;
  if (index != nullptr) group_of = columns_in_other_groups(context, *index, columns, group);
  QuantisedWeight made{&codes, {&scales}, rows, columns, zero_point_format(bits, group), {}, {}};
  if (!group_of.empty()) place_columns(context, made, group_of, group, *index, scales);
  require_format(context, codes, made.dtype, group);
  if (zeros != nullptr) made.further.push_back(zeros);
  made.change = [=, format = made.dtype, rows = rows, columns = columns, scale_type = scales.info.dtype, has_zeros = zeros != nullptr,
                 group_of = std::move(group_of), order = made.order, expands = !made.expanded.empty(),
                 where = context.where(scales)](gguf::LyingPieces lying, const MadeRows& to) {
    const StoredNumbers scale(scale_type, lying[1]);
    Codes blocks{format, rows, columns, group, {}, {}, {}, group_of, order};
    blocks.read = [=, row_words = words_of(columns, bits)](const Tile& tile, std::uint8_t* out) {
      for (std::uint64_t row = tile.row; row < tile.row + tile.rows; ++row, out += tile.pitch)
        read_row(lying[0], row * row_words + tile.column * bits / 32, tile.columns, bits, out);
    };
    blocks.read_pairs = [=, row_words = words_of(columns, bits)](const Tile& tile, std::uint8_t* out) {
      for (std::uint64_t row = tile.row; row < tile.row + tile.rows; ++row, out += tile.pitch)
        for (std::uint64_t i = 0; i < tile.columns / 8; i += i % 2 == 0 ? 1 : 3) {
          const std::uint64_t word = row * row_words + tile.column / 8 + i;
          put_pairs(word_at(lying[0], word), word_at(lying[0], word + 2), out + 4 * (i - i % 4) + 8 * (i % 4));
        }
    };
    blocks.scales = by_groups(group, [=](std::uint64_t row, std::uint64_t g) { return scale[grid.at(row, g * group)]; });
    blocks.zeros = by_groups(group, [=](std::uint64_t row, std::uint64_t g) -> std::uint32_t {
      if (!has_zeros) return 1u << (bits - 1);
      const std::uint64_t in_word = 32 / bits;  // words along the rows, one column a group
      return word_at(lying[2], row / in_word * (columns / group) + g) >> bits * (row % in_word) & ((1u << bits) - 1);
    });
    return expands ? expanded(std::move(blocks), where, to) : packed_blocks(std::move(blocks), where, to);
  };
  return made;
}

QuantisedWeight integers(const ModuleContext& context, const QuantisedModule& module, const StoredTensor& codes) {
  const StoredTensor& scales = context.require(module, "weight_scale");
  const StoredTensor* const zeros = module.find("weight_zero_point");
  if (codes.info.shape.size() != 2 || codes.info.elements() == 0) throw context.refused(QUERN_BAD_MODEL, codes, "is not a matrix");
  const std::uint64_t rows = codes.info.shape[0], columns = codes.info.shape[1];
  const ScaleGrid grid = scale_grid(context, scales, rows, columns);
  if (zeros != nullptr) context.check(*zeros, scales.info.shape, {Dtype::i8});
  // An f32 as the scale has a format of its own, without zero points.
  const bool whole = scales.info.dtype == Dtype::f32 && zeros == nullptr && grid.column_step % 128 == 0;
  QuantisedWeight made{&codes, {&scales}, rows, columns, whole ? QUERN_Q8_128 : zero_point_format(8, grid.column_step), {}, {}};
  require_format(context, codes, made.dtype, grid.column_step);
  if (zeros != nullptr) made.further.push_back(zeros);
  made.change = [=, format = made.dtype, scale_type = scales.info.dtype, has_zeros = zeros != nullptr,
                 where = context.where(scales)](gguf::LyingPieces lying, const MadeRows& to) {
    const StoredNumbers scale(scale_type, lying[1]);
    Codes blocks{format, rows, columns, grid.column_step, {}, {}, {}, {}, {}};
    const std::uint8_t middle = whole ? 0 : 128;
    blocks.read = [=](const Tile& tile, std::uint8_t* out) {
      for (std::uint64_t row = tile.row; row < tile.row + tile.rows; ++row, out += tile.pitch) {
        const std::span<const std::byte> codes = lying[0].subspan(row * columns + tile.column, tile.columns);
        for (std::size_t i = 0; i < codes.size(); ++i) out[i] = std::to_integer<std::uint8_t>(codes[i]) ^ middle;
      }
    };
    blocks.scales =
        by_groups(grid.column_step, [=](std::uint64_t row, std::uint64_t g) { return scale[grid.at(row, g * grid.column_step)]; });
    blocks.zeros = by_groups(grid.column_step, [=](std::uint64_t row, std::uint64_t g) {
      return has_zeros ? std::to_integer<std::uint32_t>(lying[2][grid.at(row, g * grid.column_step)]) ^ 128u : 128u;
    });
    return packed_blocks(std::move(blocks), where, to);
  };
  return made;
}

}  // namespace

QuantisedWeight compressed_weight(const ModuleContext& context, const QuantisedModule& module) {
  if (const StoredTensor* codes = module.find("weight_packed")) return packed(context, module, *codes);
  const StoredTensor& codes = context.require(module, "weight");
  return codes.info.dtype == Dtype::i8 ? integers(context, module, codes) : fp8_weight(context, module);
}

}  // namespace quern::directory
