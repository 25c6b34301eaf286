// See random_uniform_reference.hpp.
#include "ops/random_uniform_reference.hpp"

namespace quern::conformance {

std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) noexcept {
  constexpr std::uint64_t multiplier_0 = 0xD2511F53, multiplier_1 = 0xCD9E8D57;
  constexpr std::uint32_t weyl_0 = 0x9E3779B9, weyl_1 = 0xBB67AE85;  // of the golden ratio and of sqrt(3) - 1
  for (std::uint32_t round = 0; round < 10; ++round) {
    const std::uint32_t key_0 = key[0] + round * weyl_0, key_1 = key[1] + round * weyl_1;
    const std::uint64_t product_0 = multiplier_0 * counter[0], product_1 = multiplier_1 * counter[2];
    const auto high = [](std::uint64_t p) { return static_cast<std::uint32_t>(p >> 32); };
    const auto low = [](std::uint64_t p) { return static_cast<std::uint32_t>(p); };
    counter = {high(product_1) ^ counter[1] ^ key_0, low(product_1), high(product_0) ^ counter[3] ^ key_1, low(product_0)};
  }
  return counter;
}

double unit_interval(std::uint32_t word) noexcept { return (static_cast<double>(word) + 0.5) / 4294967296.0; }

}  // namespace quern::conformance
