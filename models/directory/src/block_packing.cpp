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

/// Byte j of 16 has codes j and j + 16 of 32.
void put_nibbles(const std::uint8_t* codes, std::uint64_t count, std::byte* out) noexcept {
  for (std::uint64_t i = 0; i < count; i += 32, out += 16)
    for (std::uint64_t j = 0; j < 16; ++j) out[j] = static_cast<std::byte>(codes[i + j] | codes[i + j + 16] << 4);
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

}  // namespace

std::vector<std::byte> expanded(const Codes& codes, const std::string& where) try {
  std::vector<std::byte> made;
  made.reserve(codes.rows * codes.columns * models::float_bytes(codes.format));
  std::vector<std::uint8_t> tile(std::min(rows_at_once, codes.rows) * codes.columns);
  std::vector<float> numbers(codes.columns);
  for (std::uint64_t first = 0; first < codes.rows; first += rows_at_once) {
    const std::uint64_t count = std::min(rows_at_once, codes.rows - first);
    codes.read(first, count, tile.data());
    for (std::uint64_t row = 0; row < count; ++row) {
      for (std::uint64_t i = 0; i < codes.columns; ++i) {
        const std::uint64_t group = codes.group_of.empty() ? i / codes.group : codes.group_of[i];
        const int code = tile[row * codes.columns + i] - static_cast<int>(codes.zero(first + row, group));
        numbers[i] = codes.scale(first + row, group) * static_cast<float>(code);
      }
      const std::vector<std::byte> bytes = models::encode_floats(codes.format, numbers);
      made.insert(made.end(), bytes.begin(), bytes.end());
    }
  }
  return made;
} catch (const Error& error) { throw Error(QUERN_BAD_MODEL, concat(where, error.what())); }

quern_dtype zero_point_format(std::uint32_t bits, std::uint64_t group) noexcept {
  if (bits == 4)
    return group % 128 == 0 ? QUERN_Q4_Z128 : group % 64 == 0 ? QUERN_Q4_Z64 : group % 32 == 0 ? QUERN_Q4_Z32 : QUERN_DTYPE_NONE;
  if (bits == 8) return group % 128 == 0 ? QUERN_Q8_Z128 : group % 32 == 0 ? QUERN_Q8_Z32 : QUERN_DTYPE_NONE;
  return QUERN_DTYPE_NONE;
}

std::vector<std::byte> packed_blocks(const Codes& codes, const std::string& where) {
  const graph::BlockSize block = graph::block_size(codes.format);
  const auto elements = static_cast<std::uint64_t>(block.elements), bytes = static_cast<std::uint64_t>(block.bytes);
  const std::uint64_t blocks = codes.columns / elements;
  const bool nibbles = bytes < elements;
  std::vector<std::byte> made(codes.rows * blocks * bytes);
  std::vector<std::uint8_t> tile(std::min(rows_at_once, codes.rows) * codes.columns);
  std::vector<std::uint8_t> ordered(codes.order.size());
  std::byte* out = made.data();
  for (std::uint64_t first = 0; first < codes.rows; first += rows_at_once) {
    const std::uint64_t count = std::min(rows_at_once, codes.rows - first);
    codes.read(first, count, tile.data());
    for (std::uint64_t row = 0; row < count; ++row) {
      const std::uint8_t* from = tile.data() + row * codes.columns;
      if (!ordered.empty()) {
        for (std::uint64_t i = 0; i < codes.columns; ++i) ordered[i] = from[codes.order[i]];
        from = ordered.data();
      }
      for (std::uint64_t i = 0; i < blocks; ++i, from += elements, out += bytes) {
        const std::uint32_t head = head_of(codes, first + row, i * elements / codes.group, where);
        std::memcpy(out, &head, sizeof head);
        if (nibbles) put_nibbles(from, elements, out + sizeof head);
        else std::memcpy(out + sizeof head, from, elements);
      }
    }
  }
  return made;
}

}  // namespace quern::directory
