// Panels of weights whose codes stand for floats, with an f32 as the scale of a block: F8_128, NF4_64, FP4_64.
//
// A panel is blocks of `Element::group` k: the scales of its rows, then lines of `Element::line_k` k, a word of each row. All in an anonymous
// namespace: each instruction set has its own.
#pragma once

#include "../formats.hpp"

#include <cstddef>
#include <cstdint>

namespace quern::cpu {
namespace {

/// Of a block: scales and lines.
template <typename Element, int Rows>
constexpr int coded_bytes = 4 * Rows*(1 + Element::group / Element::line_k);

/// Element::put packs the line_k codes behind `at` of a canonical block as row `row` of a line.
template <typename Element, int Rows>
void pack_coded_panel(const std::byte* source, std::int64_t stride, std::int64_t rows, std::int64_t k, std::byte* panel) noexcept {
  constexpr int line = 4 * Rows, bytes = coded_bytes<Element, Rows>;
  auto* p = reinterpret_cast<std::uint8_t*>(panel);
  for (std::int64_t i = 0; i < k; i += Element::group, p += bytes) {
    if (rows < Rows) __builtin_memset(p, 0, bytes);  // what no row fills
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto* block =
          reinterpret_cast<const std::uint8_t*>(source) + row * stride + i / Element::group * block_bytes_of<Element::dtype>;
      __builtin_memcpy(p + 4 * row, block, 4);
      for (int at = 0; at < Element::group; at += Element::line_k) Element::put(block + 4, at, row, p + line * (1 + at / Element::line_k));
    }
  }
}

/// The codes of F8_128: a line is 4 k, in words of 16 bits k 0 (below) and 1 of each row, then k 2 and 3.
template <int Rows>
void put_f8_codes(const std::uint8_t* codes, int at, std::int64_t row, std::uint8_t* line) noexcept {
  __builtin_memcpy(line + 2 * row, codes + at, 2);
  __builtin_memcpy(line + 2 * (Rows + row), codes + at + 2, 2);
}

/// The 16 codes of four bits from k `at` on, or 8 of them: byte j of 16 has elements j and j + 16 of 32.
struct Nibbles {
  const std::uint8_t* from;
  int shift;
  Nibbles(const std::uint8_t* codes, int at) noexcept : from(codes + at / 32 * 16 + at % 16), shift(at % 32 / 16 * 4) {}
  std::uint32_t operator[](int j) const noexcept { return from[j] >> shift & 15u; }
};

}  // namespace
}  // namespace quern::cpu
