// Philox4x32-10: four random words from a counter and a key. Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
#pragma once

#include <array>
#include <cstdint>

namespace quern::cpu {

inline std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) noexcept {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * counter[0], b = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

/// (word + 0.5) / 2^32: in (0, 1), exact in f64.
inline double philox_unit(std::uint32_t word) noexcept { return (static_cast<double>(word) + 0.5) * 0x1p-32; }

}  // namespace quern::cpu
