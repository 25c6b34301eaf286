// A block format's bytes as numbers, both ways, from its descriptor.
#pragma once

#include "quern/quern_formats.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace quern::quantize {

inline constexpr int most_elements = 256, most_groups = 16;

/// The numbers of a block. Codes and scales are without bias.
struct Block {
  float scale = 0, minimum = 0;  // of the whole block, as f16 holds them
  int scales[most_groups] = {}, minima[most_groups] = {};
  float codes[most_elements] = {};  // integers
};

/// Integers from `low` to `high`.
struct Range {
  int low = 0, high = 0;
};

class BlockLayout {
 public:
  /// Null for a dtype that is no block format.
  static const BlockLayout* find(quern_dtype dtype);

  explicit BlockLayout(const quern_format& format);

  int elements() const noexcept { return elements_; }
  int group() const noexcept { return group_; }
  int groups() const noexcept { return elements_ / group_; }
  std::size_t bytes() const noexcept { return bytes_; }
  std::uint32_t formula() const noexcept { return formula_; }
  Range codes() const noexcept { return codes_.range; }
  Range scales() const noexcept { return scales_.range; }
  Range minima() const noexcept { return minima_.range; }

  void pack(const Block& block, std::byte* bytes) const noexcept;
  void unpack(const std::byte* bytes, Block& block) const noexcept;

 private:
  /// Some bits of an entry, which lie within one byte.
  struct Bits {
    std::uint16_t entry, byte;
    std::uint8_t shift, mask, left;
  };
  struct Field {
    std::vector<Bits> bits;
    Range range;
    int bias = 0, wrap = 0;  // wrap: of two's complement, the distance from the largest number to the least, and 1
  };

  static Field field_of(const quern_format_field& field);

  int elements_, group_;
  std::size_t bytes_;
  std::uint32_t formula_;
  std::size_t scale_at_ = 0, minimum_at_ = 0;
  Field codes_, scales_, minima_;
};

/// Element i of the block, rounded once.
inline float value_of(const BlockLayout& layout, const Block& block, int i) noexcept {
  const int g = i / layout.group();
  const float code = block.codes[i];
  switch (layout.formula()) {
    case QUERN_FORMULA_SYMMETRIC: return block.scale * code;
    case QUERN_FORMULA_OFFSET: return block.scale * code + block.minimum;
    case QUERN_FORMULA_SUPER_SYMMETRIC: return block.scale * static_cast<float>(block.scales[g]) * code;
    default: return block.scale * static_cast<float>(block.scales[g]) * code - block.minimum * static_cast<float>(block.minima[g]);
  }
}

}  // namespace quern::quantize
