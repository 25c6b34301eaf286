// The random numbers that OPS.md specifies. Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
#pragma once

#include <array>
#include <cstdint>

namespace quern::conformance {

/// Ten rounds of Philox4x32. Word 0 is the first of the four.
std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) noexcept;

/// (word + 0.5) / 2^32, exact in f64.
double unit_interval(std::uint32_t word) noexcept;

}  // namespace quern::conformance
