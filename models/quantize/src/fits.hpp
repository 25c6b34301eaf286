// Blocks and groups that hold numbers well: by rounding, and by weighted least squares over candidates.
//
// Each instruction set has its functions. All give the same bits.
#pragma once

#include "block_layout.hpp"

#include "quern/quern_dtypes.h"

#include <cstdint>
#include <span>

namespace quern::quantize {

/// The numbers of a block or a group, all finite, and their weights: of each group some weight is above 0, and none is above 1.
struct FitItem {
  const float *x, *weights;
};

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
  /// The least sum of weight * (x - value)^2 that the search finds, at most that of rounding each group by its largest element, as the
  /// graph's cast does. A block whose scale or minimum f16 cannot hold has one that is not finite.
  void (*fit_blocks)(const BlockLayout& layout, std::span<const FitItem> items, Block* blocks);
  /// The same for groups of a quantised directory; `codes` has the items' one after another.
  void (*fit_groups)(const GroupRequest& request, std::span<const FitItem> items, GroupOfCodes* found, std::uint8_t* codes);
};

/// Of the best instruction set that this processor has.
const Fits& fits() noexcept;
/// All that this processor can run, for tests.
std::span<const Fits* const> runnable_fits() noexcept;

}  // namespace quern::quantize
