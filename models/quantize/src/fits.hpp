// Blocks and groups that hold numbers well: by rounding, and by weighted least squares over candidates.
//
// Each instruction set has its functions. All give the same bits.
#pragma once

#include "block_layout.hpp"

#include "quern/quern_dtypes.h"

#include <cstdint>
#include <span>

namespace quern::quantize {

/// Codes of four bits around a zero point.
struct GroupRequest {
  int numbers;  // 32, 64 or 128
  bool zero_points;
  quern_dtype scale;
};
struct GroupOfCodes {
  float scale = 0;
  int zero = 0;
  bool found = false;  // a scale that the type holds
};

struct Fits {
  const char* name;
  /// Each group by its largest element, as the graph's cast encodes.
  void (*round_block)(const BlockLayout& layout, const float* x, Block& block);
  /// The least sum of weight * (x - value)^2 that the search finds. Of each group some weight is above 0, and none of the block above 1.
  void (*fit_block)(const BlockLayout& layout, const float* x, const float* weights, Block& block);
  /// The same for a group of a quantised directory. The numbers are finite.
  GroupOfCodes (*fit_group)(const GroupRequest& request, const float* x, const float* weights, std::uint8_t* codes);
};

/// Of the best instruction set that this processor has.
const Fits& fits() noexcept;
/// All that this processor can run, for tests.
std::span<const Fits* const> runnable_fits() noexcept;

/// Of the numbers as a reader sees them.
double error_of(const BlockLayout& layout, const Block& block, const float* x, const float* weights);

}  // namespace quern::quantize
