// The order of AWQ's words: eight columns of the product, which are rows here.
#pragma once

#include <array>
#include <cstdint>

namespace quern::directory {

inline constexpr std::uint64_t rows_of_word = 8;
/// Nibble i of a word belongs to row 8 c + row_of_nibble[i].
inline constexpr std::array<std::uint64_t, rows_of_word> row_of_nibble = {0, 2, 4, 6, 1, 3, 5, 7};
inline constexpr std::array<std::uint32_t, rows_of_word> nibble_of_row = {0, 4, 1, 5, 2, 6, 3, 7};

}  // namespace quern::directory
