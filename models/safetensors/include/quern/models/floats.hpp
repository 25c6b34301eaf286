// f32 numbers from and to the three float formats in which adapters, weights and optimiser state are stored.
#pragma once

#include "quern/quern_dtypes.h"

#include <cstddef>
#include <span>
#include <vector>

namespace quern::models {

/// Bytes of one number: 4 for QUERN_F32, 2 for QUERN_F16 and QUERN_BF16, 0 for any other type, which the two functions below do not take.
std::size_t float_bytes(quern_dtype dtype) noexcept;

/// Numbers of little-endian bytes, exact. `bytes` holds whole numbers; throws Error(QUERN_INVALID_ARGUMENT) else, or for another type.
std::vector<float> decode_floats(quern_dtype dtype, std::span<const std::byte> bytes);
/// The same into as many numbers as there are.
void decode_floats(quern_dtype dtype, std::span<const std::byte> bytes, std::span<float> numbers);

/// The numbers rounded to nearest, ties to even. Throws Error(QUERN_INVALID_ARGUMENT) for another type, and for a finite number that would
/// become infinite: it has the number in its text.
std::vector<std::byte> encode_floats(quern_dtype dtype, std::span<const float> numbers);

}  // namespace quern::models
