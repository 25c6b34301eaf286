// Random numbers as a function of (key, index): the same on every machine, compiler and thread, in any order.
//
// Own code because the distributions of <random> differ between standard libraries. Not for cryptography.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

namespace quern::conformance {

class CounterRandom {
 public:
  explicit constexpr CounterRandom(std::uint64_t key) noexcept : key_(key) {}

  /// Seeded by a case's name (FNV-1a, then mixed), so that a case has its data whatever else runs.
  static constexpr CounterRandom of(std::string_view name) noexcept {
    std::uint64_t hash = 0xcbf29ce484222325ull;
    for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
    return CounterRandom(mix(hash));
  }

  /// An independent sequence, for input `n` of a case.
  constexpr CounterRandom stream(std::uint64_t n) const noexcept { return CounterRandom(mix(key_ ^ mix(n + 0x51ed2701ull))); }

  constexpr std::uint64_t bits(std::uint64_t i) const noexcept { return mix(key_ + (i + 1) * 0x9e3779b97f4a7c15ull); }
  /// In [0, n); the bias is below n / 2^64.
  constexpr std::uint64_t below(std::uint64_t i, std::uint64_t n) const noexcept {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(bits(i)) * n >> 64);
  }
  /// In [0, 1), a multiple of 2^-53.
  constexpr double uniform(std::uint64_t i) const noexcept { return static_cast<double>(bits(i) >> 11) * 0x1p-53; }
  /// Mean 0, deviation 1: the sum of eight 16-bit uniforms, scaled. Arithmetic alone, so the same bits everywhere; it ends at 4.9.
  double gaussian(std::uint64_t i) const noexcept {
    std::int64_t sum = 0;
    for (const std::uint64_t word : {bits(2 * i), bits(2 * i + 1)})
      for (int part = 0; part < 64; part += 16) sum += static_cast<std::int64_t>(word >> part & 0xffff);
    return static_cast<double>(2 * sum - 8 * 65535) * (1.224744871391589 / 131072.0);  // sqrt(12 / 8), over 2^17
  }

 private:
  static constexpr std::uint64_t mix(std::uint64_t z) noexcept {  // the finaliser of splitmix64
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  std::uint64_t key_;
};

}  // namespace quern::conformance
