// Rows of f32 numbers as the codes of quantised directories: integers of four bits in groups, and numbers of eight bits (E4M3).
#pragma once

#include "quern/graph/error.hpp"
#include "quern/quern_dtypes.h"

#include <cstdint>
#include <span>

namespace quern::quantize {

/// Four bits for a number: value = (code - zero) * scale, with a scale and a zero point for each `group` columns of a row.
struct GroupForm {
  std::uint64_t group = 128;      // 32, 64 or 128
  bool zero_points = false;       // else the zero point is 8
  quern_dtype scale = QUERN_F16;  // f16 or bf16
};

/// Where the codes of some rows go, row by row.
struct GroupCodes {
  std::span<std::uint8_t> codes;
  std::span<float> scales;
  std::span<std::uint8_t> zeros;
};

/// Rows of weights.size() elements each, by weighted least squares. `weights` are those of encode_rows() in encoding.hpp. No scale is
/// negative, and no group has a larger weighted error than rounding with the scale that its least and its largest number ask for. Throws
/// Error(QUERN_INVALID_ARGUMENT) for sizes that do not match, and for a number that is not finite or too large for any scale.
void encode_groups(const GroupForm& form, std::span<const float> rows, std::span<const float> weights, const GroupCodes& out);

/// The scale with which a number of this magnitude is the largest E4M3; 1 for 0.
float e4m3_scale(float largest) noexcept;
/// Throws Error(QUERN_INVALID_ARGUMENT) for a number that is not finite.
float largest_magnitude(std::span<const float> numbers);

/// number / scale to the nearest E4M3; numbers beyond the largest become it.
void encode_e4m3(std::span<const float> numbers, float scale, std::span<std::uint8_t> codes) noexcept;

}  // namespace quern::quantize
