// How far decode(encode(x)) may be from x, by the rule of a block format.
#pragma once

#include "data/tensor.hpp"

namespace quern::conformance {

/// Appends the bound of each of the `count` elements of x, whole blocks of `dtype`, to `bounds`.
///   symmetric  step D = |max| / 2^(b-1) (q8_0: / 127); half of it with 2^-6 for codes taken by an unrounded scale, the scale's f16
///              rounding (2^-11 of x and, for subnormal scales, 2^-25 a code), and what is beyond the last code on the side that has
///              one code less
///   offset     step (max - min) / (2^b - 1), and the f16 roundings of scale and min
///   super      the group's step as above; its scale and min are themselves rounded to 6 bits (q6_k: 8) of the block's largest. All
///              of it twice: encoders search for the least square error, which may move a group's scale by more than a half step
void append_encode_bounds(quern_dtype dtype, const double* x, std::int64_t count, std::vector<double>& bounds);

}  // namespace quern::conformance
