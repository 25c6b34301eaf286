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
};

/// Whether one launch may compute all of them: products of a row that is made alike, in two formats at most, without residuals.
bool share_launch(const std::vector<OneRowProduct>& products, const OneRowProduct& next);

/// The launch of products that share one.
OneRowLaunch one_row_launch(const std::vector<OneRowProduct>& products, const CardFacts& card);

}  // namespace quern::vulkan
