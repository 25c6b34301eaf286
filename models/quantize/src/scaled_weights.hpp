// What an encoder has to know of its numbers first: weights in a form in which sums neither overflow nor vanish, and what has no place.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace quern::quantize {

/// Of a group without any weight, beside those of other groups that are at most 1.
inline constexpr float least_weight = 1e-6f;

/// The weights of a row with 1 for the largest of each block, so that no sum underflows.
inline std::vector<float> scaled_weights(std::span<const float> weights, std::size_t block, std::size_t group) {
  std::vector<float> scaled(weights.size());
  for (std::size_t first = 0; first < weights.size(); first += block) {
    const auto from = weights.subspan(first, block);
    const auto to = std::span(scaled).subspan(first, block);
    const float largest = std::ranges::max(from);
    if (!(largest > 0)) {
      std::ranges::fill(to, 1.0f);
      continue;
    }
    for (std::size_t i = 0; i < block; ++i) to[i] = from[i] / largest;
    for (std::size_t at = 0; at < block; at += group)
      if (const auto part = to.subspan(at, group); std::ranges::all_of(part, [](float w) { return w == 0; }))
        std::ranges::fill(part, least_weight);
  }
  return scaled;
}

inline std::span<const float>::iterator first_not_finite(std::span<const float> numbers) {
  std::uint32_t bad = 0;
  for (const float number : numbers) bad += (std::bit_cast<std::uint32_t>(number) & 0x7f800000u) == 0x7f800000u;
  return bad != 0 ? std::ranges::find_if_not(numbers, [](float number) { return std::isfinite(number); }) : numbers.end();
}

}  // namespace quern::quantize
