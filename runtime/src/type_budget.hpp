// One type for each tensor, with the least sum of errors within so many bytes.
#pragma once

#include "quern/quern_dtypes.h"

#include <cstdint>
#include <span>
#include <vector>

namespace quern::runtime {

struct TypeOption {
  quern_dtype dtype = QUERN_DTYPE_NONE;
  std::uint64_t bytes = 0;
  double error = 0;
};

/// For each tensor the place of its type among its options, of which it has one at least. The smallest of all fit within `budget`.
///
/// Tensor after tensor, sums that are larger and no better than another are dropped. Of sums whose sizes lie within a 4,096th of the room above
/// the smallest types, the best one stays. So the choice is the best of all as long as the sums are few, and close to it after that.
std::vector<std::size_t> least_error(std::span<const std::vector<TypeOption>> options, std::uint64_t budget);

}  // namespace quern::runtime
