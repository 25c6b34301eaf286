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
void put_nibbles(const std::uint8_t* codes, std::uint64_t count, std::uint8_t* out) noexcept {
  for (std::uint64_t i = 0; i < count; i += 32, out += 16)
    for (std::uint64_t j = 0; j < 16; j += 8) {
      std::uint64_t low, high;
      std::memcpy(&low, codes + i + j, sizeof low);
      std::memcpy(&high, codes + i + j + 16, sizeof high);
      low |= high << 4;
      std::memcpy(out + j, &low, sizeof low);
    }
}

/// Bits of a scale that its place in a block cannot hold: those of a zero point, where the format has these.
std::uint32_t bits_without_place(quern_dtype format) noexcept { return has_zero_points(format) ? 255u : 0u; }

void check_scale(quern_dtype format, float scale, std::uint64_t row, std::uint64_t group, const std::string& where) {
  if (!std::isfinite(scale)) throw Error(QUERN_BAD_MODEL, concat(where, "the scale of row ", row, ", group ", group, " is not finite"));
  if ((std::bit_cast<std::uint32_t>(scale) & bits_without_place(format)) != 0)
    throw Error(QUERN_BAD_MODEL, concat(where, "the scale of row ", row, ", group ", group, " is ", scale,
                                        ", which has more than 16 significant bits; scales are read as f16 or bf16 hold them"));
}

/// Throws for the first of these rows whose scale or zero point has no place, and its first group.
void check_groups(const Codes& codes, const std::string& where, std::uint64_t first, std::uint64_t end) {
  for (std::uint64_t row = first; row < end; ++row)
    for (std::uint64_t group = 0; group < codes.columns / codes.group; ++group) {
      const Tile one{row, 1, group * codes.group, codes.group};
      float scale;
      codes.scales(one, &scale);
      check_scale(codes.format, scale, row, group, where);
      std::uint32_t zero;
      if (has_zero_points(codes.format)) codes.zeros(one, &zero);
    }
}

std::uint64_t parts_of(const Codes& codes) noexcept { return (codes.rows + rows_at_once - 1) / rows_at_once; }

/// Calls `each` with each row and its codes. Rows are a line of a cache more apart than their codes take: at powers of two they would
/// displace each other.
template <typename Each>
void for_whole_rows(const Codes& codes, std::uint64_t first, std::uint64_t end, const Each& each) {
  const std::uint64_t at_once = std::min({codes.tile_rows, line_rows, end - first}), pitch = codes.columns + 64;
  std::vector<std::uint8_t> tile(at_once * pitch);
  for (std::uint64_t row = first; row < end; row += at_once) {
    const std::uint64_t count = std::min(at_once, end - row);
    codes.read({row, count, 0, codes.columns, pitch}, tile.data());
    for (std::uint64_t i = 0; i < count; ++i) each(row + i, tile.data() + i * pitch);
  }
}

void expand(const Codes& codes, const MadeRows& made, std::uint64_t first, std::uint64_t end) {
  std::vector<float> numbers(codes.columns), scales((codes.columns + codes.group - 1) / codes.group);
  std::vector<std::uint32_t> zeros(scales.size());
  for_whole_rows(codes, first, end, [&](std::uint64_t row, const std::uint8_t* from) {
    const Tile whole{row, 1, 0, codes.columns};
    codes.scales(whole, scales.data());
    codes.zeros(whole, zeros.data());
    for (std::uint64_t i = 0; i < codes.columns; ++i) {
      const std::uint64_t group = codes.group_of.empty() ? i / codes.group : codes.group_of[i];
      numbers[i] = scales[group] * static_cast<float>(from[i] - static_cast<int>(zeros[group]));
    }
    std::ranges::copy(models::encode_floats(codes.format, numbers), made.row(row).begin());
  });
}

/// Blocks of some rows, a tile at a time.
class BlockWriter {
 public:
  BlockWriter(const Codes& codes, const std::string& where, const MadeRows& made, std::uint64_t first, std::uint64_t end)
      : codes_(codes), where_(where), first_(first) {
    const graph::BlockSize block = graph::block_size(codes.format);
    elements_ = static_cast<std::uint64_t>(block.elements);
    body_ = static_cast<std::uint64_t>(block.bytes) - sizeof(std::uint32_t);
    for (std::uint64_t row = first; row < end; ++row) rows_.push_back(made.row(row).data());
  }

  bool has_pairs() const noexcept { return body_ < elements_; }

  /// `from` has the bytes of blocks without their heads.
  void write(const Tile& tile, const std::uint8_t* from) {
    find_heads(tile);
    switch (body_) {  // a copy of so many bytes is no call
      case 16: return put<16>(tile, from);
      case 32: return put<32>(tile, from);
      case 64: return put<64>(tile, from);
      default: return put<128>(tile, from);
    }
  }

 private:
  /// The scale and zero point of each row and group that the tile has columns of.
  void find_heads(const Tile& tile) {
    first_group_ = tile.column / codes_.group;
    groups_ = (tile.column + tile.columns + codes_.group - 1) / codes_.group - first_group_;
    scales_.resize(tile.rows * groups_);
    heads_.resize(scales_.size());
    codes_.scales(tile, scales_.data());
    if (has_zero_points(codes_.format)) codes_.zeros(tile, heads_.data());
    const std::uint32_t none = bits_without_place(codes_.format);
    for (std::size_t i = 0; i < scales_.size(); ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(scales_[i]);
      if (!std::isfinite(scales_[i]) || (bits & none) != 0)
        check_scale(codes_.format, scales_[i], tile.row + i / groups_, first_group_ + i % groups_, where_);
      heads_[i] = bits | (heads_[i] & none);
    }
  }

  template <std::size_t body>
  void put(const Tile& tile, const std::uint8_t* from) const {
    const std::uint64_t blocks = tile.columns / elements_, until_next = (first_group_ + 1) * codes_.group - tile.column;
    const std::uint32_t* heads = heads_.data();
    for (std::uint64_t row = tile.row; row < tile.row + tile.rows; ++row, from += tile.pitch, heads += groups_) {
      std::byte* out = rows_[row - first_] + tile.column / elements_ * (body + sizeof *heads);
      const std::uint32_t* head = heads;
      std::uint64_t left = until_next;
      for (std::uint64_t i = 0; i < blocks; ++i, out += body + sizeof *heads) {
        std::memcpy(out, head, sizeof *head);
        std::memcpy(out + sizeof *head, from + i * body, body);
        left -= elements_;
        if (left == 0) ++head, left = codes_.group;
      }
    }
  }

  const Codes& codes_;
  const std::string& where_;
  std::uint64_t first_, elements_ = 1, body_ = 1;
  std::vector<std::byte*> rows_;
  std::uint64_t first_group_ = 0, groups_ = 0;  // of the tile
  std::vector<float> scales_;
  std::vector<std::uint32_t> heads_;
};

void pack_ordered(const Codes& codes, BlockWriter& writer, std::uint64_t first, std::uint64_t end) {
  std::vector<std::uint8_t> ordered(codes.columns), pairs(codes.columns / 2);
  for_whole_rows(codes, first, end, [&](std::uint64_t row, const std::uint8_t* from) {
    for (std::uint64_t i = 0; i < codes.columns; ++i) ordered[i] = from[codes.order[i]];
    if (writer.has_pairs()) put_nibbles(ordered.data(), codes.columns, pairs.data());
    writer.write({row, 1, 0, codes.columns}, writer.has_pairs() ? pairs.data() : ordered.data());
  });
}

void pack_lying(const Codes& codes, BlockWriter& writer, std::uint64_t first, std::uint64_t end) {
  const auto* const from = reinterpret_cast<const std::uint8_t*>(codes.lying.data());
  for (std::uint64_t row = first; row < end; ++row) writer.write({row, 1, 0, codes.columns, 0}, from + row * codes.columns);
}

void pack_tiles(const Codes& codes, BlockWriter& writer, std::uint64_t first, std::uint64_t end) {
  const std::uint64_t rows = std::min(codes.tile_rows, end - first);
  const std::uint64_t at_once = codes.tile_rows > 1 ? std::min(columns_at_once, codes.columns) : codes.columns;
  const std::uint64_t pitch = writer.has_pairs() ? at_once / 2 : at_once;
  const auto& read = writer.has_pairs() ? codes.read_pairs : codes.read;
  std::vector<std::uint8_t> codes_of_tile(rows * pitch);
  for (std::uint64_t row = first; row < end; row += rows)
    for (std::uint64_t column = 0; column < codes.columns; column += at_once) {
      const Tile tile{row, std::min(rows, end - row), column, std::min(at_once, codes.columns - column), pitch};
      read(tile, codes_of_tile.data());
      writer.write(tile, codes_of_tile.data());
    }
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
            BlockWriter writer(codes, where, made, first, end);
            try {
              if (!codes.lying.empty()) pack_lying(codes, writer, first, end);
              else codes.order.empty() ? pack_tiles(codes, writer, first, end) : pack_ordered(codes, writer, first, end);
            } catch (const Error&) {
              check_groups(codes, where, first, end);  // tiles come in another order than rows
              throw;
            }
          }};
}

}  // namespace quern::directory
