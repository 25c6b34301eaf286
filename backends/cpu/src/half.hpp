// f16 and bf16 to and from f32 in portable code: round to nearest even, NaN stays NaN, f16 subnormals kept.
//
// always_inline, so that translation units built for a newer processor emit no shared copy of them.
#pragma once

#include <bit>
#include <cstdint>

namespace quern::cpu {

[[gnu::always_inline]] inline float half_to_float(std::uint16_t h) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000u) << 16;
  const std::uint32_t magnitude = h & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  // Shifted into place the exponent is 112 too small; one exact product repairs normals and subnormals alike.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p+112f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(scaled));
}

[[gnu::always_inline]] inline std::uint16_t float_to_half(float x) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // 65520 and above round to infinity
  if (magnitude < 0x38800000u) {  // below 2^-14: adding 2^-1 puts the f16 subnormal's last place at the float's last place
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
  }
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

[[gnu::always_inline]] inline float bfloat_to_float(std::uint16_t h) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(h) << 16);
}

[[gnu::always_inline]] inline std::uint16_t float_to_bfloat(float x) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace quern::cpu
