#include "quern/training/philox.hpp"

namespace quern::training {

PhiloxWords philox(std::uint64_t seed, std::uint32_t index, std::uint32_t step, std::uint32_t salt, Purpose purpose) noexcept {
  PhiloxWords words = {index, step, salt, static_cast<std::uint32_t>(purpose)};
  auto low = static_cast<std::uint32_t>(seed), high = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = std::uint64_t{0xD2511F53} * words[0], second = std::uint64_t{0xCD9E8D57} * words[2];
    words = {static_cast<std::uint32_t>(second >> 32) ^ words[1] ^ low, static_cast<std::uint32_t>(second),
             static_cast<std::uint32_t>(first >> 32) ^ words[3] ^ high, static_cast<std::uint32_t>(first)};
    low += 0x9E3779B9;
    high += 0xBB67AE85;
  }
  return words;
}

}  // namespace quern::training
