// See block_layout.hpp.
#include "block_layout.hpp"

#include "e4m3.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <span>
#include <type_traits>

namespace quern::quantize {
namespace {

template <typename T>
std::span<const T> list_of(const quern_array& array) {
  return {static_cast<const T*>(array.data), static_cast<std::size_t>(array.count)};
}

std::uint32_t bit_address(const quern_format_piece& piece, std::uint32_t entry) noexcept {
  std::uint32_t rest = entry - piece.first, at = piece.bit_offset;
  for (std::uint32_t d = piece.rank; d-- > 0;) {
    at += rest % piece.dims[d].size * piece.dims[d].stride;
    rest /= piece.dims[d].size;
  }
  return at;
}

std::uint16_t half_at(const std::byte* at) noexcept {
  std::uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return bits;
}

/// Empty where codes are integers.
std::vector<float> numbers_of_codes(const quern_format& format, const quern_format_field& codes) {
  std::vector<float> numbers;
  if (format.formula == QUERN_FORMULA_SUPER_TABLE) {
    const std::span<const float> values = list_of<float>(static_cast<const quern_code_table*>(format.header.next)->values);
    numbers.assign(values.begin(), values.end());
  } else if (codes.stored == QUERN_STORED_E4M3) {
    for (unsigned code = 0; code < 256; ++code) numbers.push_back(from_e4m3(code));
  }
  return numbers;
}

/// An f32 whose lowest bytes are 0 and are not there.
float upper_float_at(const std::byte* at, std::size_t skipped) noexcept {
  std::byte bytes[sizeof(float)] = {};
  std::memcpy(bytes + skipped, at, sizeof bytes - skipped);
  return std::bit_cast<float>(bytes);
}

void put_half(std::byte* at, float number) noexcept {
  const std::uint16_t bits = sdk::to_f16(number);
  std::memcpy(at, &bits, sizeof bits);
}

}  // namespace

const BlockLayout* BlockLayout::find(quern_dtype dtype) {
  static const std::vector<BlockLayout> layouts(std::begin(quern_formats), std::end(quern_formats));
  for (std::size_t i = 0; i < layouts.size(); ++i)
    if (quern_formats[i].id == dtype) return &layouts[i];
  return nullptr;
}

BlockLayout::Field BlockLayout::field_of(const quern_format_field& field) {
  Field made;
  std::uint32_t width = 0;
  for (const quern_format_piece& piece : list_of<quern_format_piece>(field.pieces)) {
    width = std::max(width, piece.shift + piece.bits);
    for (std::uint32_t entry = piece.first; entry < piece.first + piece.count; ++entry) {
      const std::uint32_t at = bit_address(piece, entry);
      for (std::uint32_t have = 0; have < piece.bits;) {
        const std::uint32_t shift = (at + have) % 8, take = std::min(8 - shift, piece.bits - have);
        const Bits bits{
            static_cast<std::uint16_t>(entry), static_cast<std::uint16_t>((at + have) / 8), 1,
            static_cast<std::uint8_t>(shift),  static_cast<std::uint8_t>((1u << take) - 1), static_cast<std::uint8_t>(piece.shift + have)};
        if (!made.bits.empty() && made.bits.back().goes_on_with(bits)) ++made.bits.back().count;
        else made.bits.push_back(bits);
        have += take;
      }
    }
  }
  const int count = 1 << width;
  made.bias = static_cast<int>(field.bias);
  if (field.stored == QUERN_STORED_INT) made.wrap = count;
  const int first = field.stored == QUERN_STORED_INT ? -count / 2 : 0;
  made.range = {first - made.bias, first + count - 1 - made.bias};
  return made;
}

bool BlockLayout::Bits::goes_on_with(const Bits& next) const noexcept {
  return next.entry == entry + count && next.byte == byte + count && next.shift == shift && next.mask == mask && next.left == left;
}

BlockLayout::BlockLayout(const quern_format& format)
    : elements_(static_cast<int>(format.block_elements)),
      group_(static_cast<int>(format.group_elements)),
      bytes_(format.block_bytes),
      formula_(format.formula) {
  for (const quern_format_field& field : list_of<quern_format_field>(format.fields)) {
    const quern_format_piece& piece = list_of<quern_format_piece>(field.pieces)[0];
    const std::size_t first = piece.bit_offset / 8;
    switch (field.role) {
      case QUERN_ROLE_SUPER_SCALE: scale_ = {field.stored, first, piece.shift / 8}; break;
      case QUERN_ROLE_ZERO: zeros_ = field_of(field); break;
      case QUERN_ROLE_SUPER_MIN: minimum_at_ = first; break;
      case QUERN_ROLE_SCALE: scales_ = field_of(field); break;
      case QUERN_ROLE_MIN: minima_ = field_of(field); break;
      default: codes_ = field_of(field); numbers_ = numbers_of_codes(format, field);
    }
  }
}

void BlockLayout::pack(const Block& block, std::byte* bytes) const noexcept {
  std::memset(bytes, 0, bytes_);
  put_half(bytes + scale_.at, block.scale);
  if (formula_ == QUERN_FORMULA_OFFSET || formula_ == QUERN_FORMULA_SUPER_OFFSET) put_half(bytes + minimum_at_, block.minimum);
  const auto put = [bytes](const Field& field, const auto* numbers, int count) {
    const int bias = field.bias;
    std::array<std::uint8_t, most_elements> stored;  // what is packed has at most eight bits
    for (int i = 0; i < count; ++i) stored[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(static_cast<int>(numbers[i]) + bias);
    for (const Bits bits : field.bits)  // a copy, which no byte that is written changes
      for (std::size_t i = 0; i < bits.count; ++i)
        bytes[bits.byte + i] |= static_cast<std::byte>((stored[bits.entry + i] >> bits.left & bits.mask) << bits.shift);
  };
  if (!scales_.bits.empty()) put(scales_, block.scales, groups());
  if (!minima_.bits.empty()) put(minima_, block.minima, groups());
  put(codes_, block.codes, elements_);
}

void BlockLayout::unpack(const std::byte* bytes, Block& block) const noexcept {
  block.scale = scale_.stored == QUERN_STORED_F16 ? sdk::from_f16(half_at(bytes + scale_.at))
                                                  : upper_float_at(bytes + scale_.at, scale_.skipped);
  if (formula_ == QUERN_FORMULA_OFFSET || formula_ == QUERN_FORMULA_SUPER_OFFSET)
    block.minimum = sdk::from_f16(half_at(bytes + minimum_at_));
  std::array<int, most_elements> stored{};
  const auto get = [&](const Field& field, auto* numbers, int count) {
    std::fill_n(stored.begin(), count, 0);
    for (const Bits& bits : field.bits)
      for (std::size_t i = 0; i < bits.count; ++i)
        stored[bits.entry + i] |= (static_cast<int>(bytes[bits.byte + i]) >> bits.shift & bits.mask) << bits.left;
    for (int i = 0; i < count; ++i) {
      const int number = stored[static_cast<std::size_t>(i)];
      numbers[i] = static_cast<std::remove_reference_t<decltype(numbers[i])>>(
          number - (field.wrap != 0 && number >= field.wrap / 2 ? field.wrap : 0) - field.bias);
    }
  };
  if (!scales_.bits.empty()) get(scales_, block.scales, groups());
  if (!minima_.bits.empty()) get(minima_, block.minima, groups());
  if (!zeros_.bits.empty()) get(zeros_, &block.zero, 1);
  get(codes_, block.codes, elements_);
  if (numbers_.empty()) return;
  for (int i = 0; i < elements_; ++i) block.codes[i] = numbers_[static_cast<std::size_t>(block.codes[i])];
}

void values_of(const BlockLayout& layout, const Block& block, float* values) noexcept {
  const int n = layout.group();
  for (int g = 0; g < layout.groups(); ++g) {
    const float* const codes = block.codes + n * g;
    float* const to = values + n * g;
    const auto each = [&](const auto& value) {
      for (int i = 0; i < n; ++i) to[i] = value(codes[i]);
    };
    switch (layout.formula()) {
      case QUERN_FORMULA_OFFSET: each([&](float code) { return block.scale * code + block.minimum; }); break;
      case QUERN_FORMULA_SUPER_SYMMETRIC:
        each([by = block.scale * static_cast<float>(block.scales[g])](float code) { return by * code; });
        break;
      case QUERN_FORMULA_SUPER_ZERO:
        each([&, zero = static_cast<float>(block.zero)](float code) { return block.scale * (code - zero); });
        break;
      case QUERN_FORMULA_SUPER_OFFSET:
        each([by = block.scale * static_cast<float>(block.scales[g]),
              less = block.minimum * static_cast<float>(block.minima[g])](float code) { return by * code - less; });
        break;
      default: each([&](float code) { return block.scale * code; });  // unpack() gives what a code of a table stands for
    }
  }
}

}  // namespace quern::quantize
