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
  float scale = 0, minimum = 0;  // of the whole block, as the format stores them
  int zero = 0;                  // of the whole block
  int scales[most_groups] = {}, minima[most_groups] = {};
  float codes[most_elements] = {};  // integers, or the numbers that codes of a table or of E4M3 stand for
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

  /// Whether blocks of it are made of numbers here: the formats of GGUF files. Those of directories are read alone.
  bool can_pack() const noexcept { return formula_ <= QUERN_FORMULA_SUPER_OFFSET && scale_.stored == QUERN_STORED_F16; }
  void pack(const Block& block, std::byte* bytes) const noexcept;
  void unpack(const std::byte* bytes, Block& block) const noexcept;

 private:
  /// Some bits of `count` entries side by side, each within one of as many bytes side by side.
  struct Bits {
    std::uint16_t entry, byte, count;
    std::uint8_t shift, mask, left;
    bool goes_on_with(const Bits& next) const noexcept;
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
  struct Scale {
    std::uint32_t stored = 0;
    std::size_t at = 0, skipped = 0;  // skipped: low bytes of an f32 that are 0 and not stored
  };
  Scale scale_;
  std::size_t minimum_at_ = 0;
  Field codes_, scales_, minima_, zeros_;
  std::vector<float> numbers_;  // of the codes, where these are no integers
};

/// The elements of the block, each rounded once.
void values_of(const BlockLayout& layout, const Block& block, float* values) noexcept;

}  // namespace quern::quantize
