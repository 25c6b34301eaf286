#include "block_packing.hpp"

#include "quern/graph/error.hpp"
#include "quern/graph/graph.hpp"
#include "quern/models/floats.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace quern::directory {
namespace {

bool has_zero_points(quern_dtype format) noexcept { return format >= QUERN_Q4_Z32 && format <= QUERN_Q8_Z128; }

/// Byte j of 16 has codes j and j + 16 of 32. Eight bytes at a time: no code has more than four bits.
void put_nibbles(const std::uint8_t* codes, std::uint64_t count, std::byte* out) noexcept {
  for (std::uint64_t i = 0; i < count; i += 32, out += 16)
    for (std::uint64_t j = 0; j < 16; j += 8) {
      std::uint64_t low, high;
      std::memcpy(&low, codes + i + j, sizeof low);
      std::memcpy(&high, codes + i + j + 16, sizeof high);
      low |= high << 4;
      std::memcpy(out + j, &low, sizeof low);
    }
}

std::uint32_t head_of(const Codes& codes, std::uint64_t row, std::uint64_t group, const std::string& where) {
  const float scale = codes.scale(row, group);
  const auto bits = std::bit_cast<std::uint32_t>(scale);
  if (!std::isfinite(scale)) throw Error(QUERN_BAD_MODEL, concat(where, "the scale of row ", row, ", group ", group, " is not finite"));
  if (!has_zero_points(codes.format)) return bits;
  if ((bits & 255u) != 0)
    throw Error(QUERN_BAD_MODEL, concat(where, "the scale of row ", row, ", group ", group, " is ", scale,
                                        ", which has more than 16 significant bits; scales are read as f16 or bf16 hold them"));
  return bits | codes.zero(row, group);
}

std::uint64_t parts_of(const Codes& codes) noexcept { return (codes.rows + rows_at_once - 1) / rows_at_once; }

/// Calls `each` with each row and its codes, for tiles of whole rows.
template <typename Each>
void for_whole_rows(const Codes& codes, std::uint64_t first, std::uint64_t end, const Each& each) {
  std::vector<std::uint8_t> tile(std::min(whole_rows_at_once, end - first) * codes.columns);
  for (std::uint64_t row = first; row < end; row += whole_rows_at_once) {
    const std::uint64_t count = std::min(whole_rows_at_once, end - row);
    codes.read({row, count, 0, codes.columns}, tile.data());
    for (std::uint64_t i = 0; i < count; ++i) each(row + i, tile.data() + i * codes.columns);
  }
}

void expand(const Codes& codes, const MadeRows& made, std::uint64_t first, std::uint64_t end) {
  std::vector<float> numbers(codes.columns);
  for_whole_rows(codes, first, end, [&](std::uint64_t row, const std::uint8_t* from) {
    for (std::uint64_t i = 0; i < codes.columns; ++i) {
      const std::uint64_t group = codes.group_of.empty() ? i / codes.group : codes.group_of[i];
      numbers[i] = codes.scale(row, group) * static_cast<float>(from[i] - static_cast<int>(codes.zero(row, group)));
    }
    std::ranges::copy(models::encode_floats(codes.format, numbers), made.row(row).begin());
  });
}

/// Blocks of one format, of `columns` from `column` on.
class BlockWriter {
 public:
  BlockWriter(const Codes& codes, const std::string& where) : codes_(codes), where_(where) {
    const graph::BlockSize block = graph::block_size(codes.format);
    elements_ = static_cast<std::uint64_t>(block.elements);
    bytes_ = static_cast<std::uint64_t>(block.bytes);
  }

  void write(std::uint64_t row, std::uint64_t column, std::uint64_t columns, const std::uint8_t* from, std::span<std::byte> made) const {
    std::byte* out = made.data() + column / elements_ * bytes_;
    for (const std::uint64_t end = column + columns; column < end; column += elements_, from += elements_, out += bytes_) {
      const std::uint32_t head = head_of(codes_, row, column / codes_.group, where_);
      std::memcpy(out, &head, sizeof head);
      if (bytes_ < elements_) put_nibbles(from, elements_, out + sizeof head);
      else std::memcpy(out + sizeof head, from, elements_);
    }
  }

 private:
  const Codes& codes_;
  const std::string& where_;
  std::uint64_t elements_ = 1, bytes_ = 1;
};

void pack_ordered(const Codes& codes, const BlockWriter& writer, const MadeRows& made, std::uint64_t first, std::uint64_t end) {
  std::vector<std::uint8_t> ordered(codes.columns);
  for_whole_rows(codes, first, end, [&](std::uint64_t row, const std::uint8_t* from) {
    for (std::uint64_t i = 0; i < codes.columns; ++i) ordered[i] = from[codes.order[i]];
    writer.write(row, 0, codes.columns, ordered.data(), made.row(row));
  });
}

void pack_tiles(const Codes& codes, const BlockWriter& writer, const MadeRows& made, std::uint64_t first, std::uint64_t end) {
  std::uint8_t tile[rows_at_once * columns_at_once];
  for (std::uint64_t column = 0; column < codes.columns; column += columns_at_once) {
    const std::uint64_t columns = std::min(columns_at_once, codes.columns - column);
    codes.read({first, end - first, column, columns}, tile);
    for (std::uint64_t row = first; row < end; ++row) writer.write(row, column, columns, tile + (row - first) * columns, made.row(row));
  }
}

/// Throws for the first of these rows whose scale or zero point has no place, and its first group.
void check_heads(const Codes& codes, const std::string& where, std::uint64_t first, std::uint64_t end) {
  for (std::uint64_t row = first; row < end; ++row)
    for (std::uint64_t group = 0; group < codes.columns / codes.group; ++group) head_of(codes, row, group, where);
}

}  // namespace

gguf::TensorParts expanded(Codes codes, std::string where, const MadeRows& made) {
  const std::uint64_t parts = parts_of(codes);
  return {parts, [codes = std::move(codes), where = std::move(where), made](std::uint64_t part) {
            try {
              expand(codes, made, part * rows_at_once, std::min(codes.rows, (part + 1) * rows_at_once));
            } catch (const Error& error) { throw Error(QUERN_BAD_MODEL, concat(where, error.what())); }
          }};
}

quern_dtype zero_point_format(std::uint32_t bits, std::uint64_t group) noexcept {
  if (bits == 4)
    return group % 128 == 0 ? QUERN_Q4_Z128 : group % 64 == 0 ? QUERN_Q4_Z64 : group % 32 == 0 ? QUERN_Q4_Z32 : QUERN_DTYPE_NONE;
  if (bits == 8) return group % 128 == 0 ? QUERN_Q8_Z128 : group % 32 == 0 ? QUERN_Q8_Z32 : QUERN_DTYPE_NONE;
  return QUERN_DTYPE_NONE;
}

gguf::TensorParts packed_blocks(Codes codes, std::string where, const MadeRows& made) {
  const std::uint64_t parts = parts_of(codes);
  return {parts, [codes = std::move(codes), where = std::move(where), made](std::uint64_t part) {
            const std::uint64_t first = part * rows_at_once, end = std::min(codes.rows, first + rows_at_once);
            const BlockWriter writer(codes, where);
            try {
              codes.order.empty() ? pack_tiles(codes, writer, made, first, end) : pack_ordered(codes, writer, made, first, end);
            } catch (const Error&) {
              check_heads(codes, where, first, end);  // tiles come in another order than rows
              throw;
            }
          }};
}

}  // namespace quern::directory
