// A hash of bytes whose seed differs from process to process, so that no file can be made to collide.
#pragma once

#include <cstdint>
#include <string_view>

namespace quern::tokenizer {

/// The seed of this process. It changes no result, only the order inside hash tables.
std::uint64_t process_seed() noexcept;

inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

std::uint64_t hash_bytes(std::string_view text, std::uint64_t seed) noexcept;

inline std::uint64_t hash_pair(std::uint64_t pair, std::uint64_t seed) noexcept {
  return mix(pair ^ seed, 0x9E3779B97F4A7C15u ^ (seed >> 32 | seed << 32));
}

}  // namespace quern::tokenizer
