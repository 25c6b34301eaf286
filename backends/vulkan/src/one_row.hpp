// Products of one row without a chain: which share a launch (shaders/one_row.glsl), and what it is.
#pragma once

#include "card.hpp"
#include "shaders/params.h"

#include <vector>

namespace quern::vulkan {

/// A product of one row: x and other, c and y as in OneRowParams; other_b: of a pair.
struct RowProductParams {
  std::uint64_t x, other, b, other_b, bias, c, y;
  uint n;
  int bias_dtype;
  float epsilon, offset;
};
struct OneRowProduct {
  RowProductParams params{};
  int format = 0, mode = 0;  // quern_dtype; quantise.comp
  uint k = 0;
  bool paired = false;
};

struct OneRowLaunch {
  OneRowParams params{};
  std::int64_t groups = 0;
  std::uint32_t threads = 0;
  std::int32_t other_format = 0, parts_of_other = 0;  // of gemv_one.comp: the second format of weights, a bit for each product that has it
  std::int32_t loads = 0, copies = 1;                 // of gemv_floats.comp: loads under way for each row, copies of a table
  bool half_row = false;                              // whether the row is f16 there
};

/// Whether weights of a format are floats, or codes that stand for floats. Their products take a row as f32, the others as int8.
constexpr bool wants_floats(int format) noexcept {
  return format == QUERN_F16 || format == QUERN_BF16 || format == QUERN_F8_128 || format == QUERN_NF4_64 || format == QUERN_FP4_64;
}
/// Bytes of a table of all pairs of codes of four bits, in shared memory; 0 for a format without one.
constexpr std::uint32_t table_bytes(int format) noexcept { return format == QUERN_NF4_64 || format == QUERN_FP4_64 ? 256 * 4 : 0; }
constexpr std::uint64_t one_row_others = 1024;  // bytes of shared memory that the kernels have besides
/// Bytes of a row of k as f16, each 32 neighbours with a scale.
constexpr std::uint64_t half_row_bytes(std::int64_t k) noexcept {
  return static_cast<std::uint64_t>(k) * 2 + static_cast<std::uint64_t>(k) / 8;
}
/// Shared memory that a workgroup has at the least for a row of k: int8 with their scales, f32, or for codes that stand for floats f16 and a table.
constexpr std::uint64_t one_row_bytes(int format, std::int64_t k) noexcept {
  const auto elements = static_cast<std::uint64_t>(k);
  const std::uint64_t row = !wants_floats(format)                             ? elements * 5 / 2
                            : sdk::is_block(static_cast<quern_dtype>(format)) ? half_row_bytes(k)
                                                                              : elements * 4;
  return one_row_others + table_bytes(format) + row;
}

/// Whether one launch may compute all of them: products of a row that is made alike, in two formats at most (floats in one), without residuals.
bool share_launch(const std::vector<OneRowProduct>& products, const OneRowProduct& next);

/// The launch of products that share one.
OneRowLaunch one_row_launch(const std::vector<OneRowProduct>& products, const CardFacts& card);

}  // namespace quern::vulkan
