// f16 and bf16 as bits, to and from f64; the rounding of a store.
#pragma once

#include <cstdint>

namespace quern::conformance {

/// Exact.
double f16_value(std::uint16_t bits) noexcept;
double bf16_value(std::uint16_t bits) noexcept;

/// To nearest, ties to even, overflow to infinity, subnormals kept, NaN to a quiet NaN of its sign.
std::uint16_t f16_bits(double x) noexcept;
std::uint16_t bf16_bits(double x) noexcept;

}  // namespace quern::conformance
