// A hash of bytes whose seed differs from process to process.
#include "quern/models/string_hash.hpp"

#include <cstring>
#include <random>

namespace quern::tokenizer {
namespace {

std::uint64_t make_seed() noexcept {
  std::uint64_t seed = 0x2545F4914F6CDD1Du ^ reinterpret_cast<std::uintptr_t>(&seed);
  try {
    std::random_device device;
    seed ^= static_cast<std::uint64_t>(device()) << 32 | device();
  } catch (const std::exception&) {
    // No entropy source: the address above still differs between processes.
  }
  return seed | 1;
}

std::uint64_t load(const char* at, std::size_t bytes) noexcept {
  std::uint64_t value = 0;
  std::memcpy(&value, at, bytes);
  return value;
}

}  // namespace

std::uint64_t process_seed() noexcept {
  static const std::uint64_t seed = make_seed();
  return seed;
}

std::uint64_t hash_bytes(std::string_view text, std::uint64_t seed) noexcept {
  constexpr std::uint64_t k0 = 0xA0761D6478BD642Fu, k1 = 0xE7037ED1A0B428DBu;
  std::uint64_t state = seed ^ mix(text.size() ^ k0, seed ^ k1);
  const char* at = text.data();
  std::size_t left = text.size();
  for (; left > 16; left -= 16, at += 16) state = mix(load(at, 8) ^ seed, load(at + 8, 8) ^ state ^ k1);
  std::uint64_t low = 0, high = 0;
  if (left >= 8) {
    low = load(at, 8);
    high = load(at + left - 8, 8);  // overlaps low; the length is in the state
  } else if (left >= 4) {
    low = load(at, 4);
    high = load(at + left - 4, 4);
  } else if (left > 0) {
    low = load(at, 1) | load(at + left / 2, 1) << 8 | load(at + left - 1, 1) << 16;
  }
  return mix(k1 ^ low ^ seed, high ^ state ^ k0);
}

}  // namespace quern::tokenizer
