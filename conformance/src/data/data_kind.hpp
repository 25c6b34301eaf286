// The kinds of input data that cases cross, and filling a tensor with one of them.
#pragma once

#include "data/counter_random.hpp"
#include "data/tensor.hpp"

namespace quern::conformance {

enum class DataKind {
  uniform,    // [-1, 1)
  gaussian,   // mean 0, deviation 1
  positive,   // [0.25, 1.25): sums grow with their length, so that biased or narrow accumulation shows
  heavy,      // gaussian, 1 in 257 times 30: what int8 scales must survive
  exponents,  // random bits with exponents spread evenly over 2^-20 .. 2^4: no coarse grid that would hide rounding
  one_hot,    // one 1 in each row (last dimension), else 0: an output then is one element, so layout errors are located
  integers,   // -8 .. 8: sums are exact in f32, so the expected bits are known
  specials,   // gaussian with +-0, subnormals, +-inf, NaN, the largest and the smallest numbers strewn in
};

/// "uniform", "one_hot": as case names spell it.
const char* data_name(DataKind kind);

/// Whether values have mean 0 and no tail, as the aggregate tests of fast numerics require of weights.
bool is_centred(DataKind kind) noexcept;

/// Fills every element; a block format gets random canonical blocks of the same spirit (BlockData).
void fill(const Tensor& tensor, DataKind kind, const CounterRandom& random);

}  // namespace quern::conformance
