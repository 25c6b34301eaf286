// How far decode(encode(x)) may be from x, by the rule of a block format.
#pragma once

#include "data/tensor.hpp"

namespace quern::conformance {

/// Appends the bound of each of the `count` elements of x, whole blocks of `dtype`, to `bounds`.
///   symmetric  step D = |max| / 2^(b-1) (q8_0: / 127); half of it with 2^-6 for codes taken by an unrounded scale, the scale's f16
///              rounding (2^-11 of x and, for subnormal scales, 2^-25 a code), and what is beyond the last code on the side that has
///              one code less
///   offset     step (max - min) / (2^b - 1), and the f16 roundings of scale and min
///   zero       step (max - min) / (2^b - 1) of a range that holds 0; half of it, which the zero point's rounding shares with the code's, with
///              2^-6 for the scale's 16 bits. A step below 2^-100 is 0
///   E4M3       half a step of three bits of mantissa, or of the least exponent; the largest magnitude is 448. A scale below 2^-100 is 0
///   table      half the largest step of the table, whose largest number is the largest magnitude
///   super      the group's step as above; its scale and min are themselves rounded to 6 bits (q6_k: 8) of the block's largest. All
///              of it twice: encoders search for the least square error, which may move a group's scale by more than a half step
void append_encode_bounds(quern_dtype dtype, const double* x, std::int64_t count, std::vector<double>& bounds);

}  // namespace quern::conformance
