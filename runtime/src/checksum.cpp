// See checksum.hpp.
//
// Eight lanes take a word each of every 64 bytes: lane = rotate((lane ^ word) * odd). Each step is a bijection of the lane for a given
// word and of the word for a given lane, and so is the folding of the lanes: a changed word cannot be lost. The rotation brings the
// upper bits, which a product never moves down, to the bottom. Eight products in flight hide the latency of three to five clocks
// of one: 8 bytes a clock, above what a core reads from memory.
#include "checksum.hpp"

#include <bit>
#include <cstring>

namespace quern::runtime {
namespace {

constexpr std::uint64_t odd = 0x9e3779b97f4a7c15u;  // 2^64 / golden ratio
constexpr int lanes = 8;

constexpr std::uint64_t step(std::uint64_t lane, std::uint64_t word) noexcept { return std::rotl((lane ^ word) * odd, 31); }

std::uint64_t word_at(const std::byte* p) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, p, sizeof(word));
  return std::endian::native == std::endian::little ? word : __builtin_bswap64(word);
}

}  // namespace

std::uint64_t checksum(std::span<const std::byte> bytes) noexcept {
  std::uint64_t lane[lanes];
  for (int i = 0; i < lanes; ++i) lane[i] = step(odd, static_cast<std::uint64_t>(i) + 1);
  const std::byte* p = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8 * lanes; left -= 8 * lanes, p += 8 * lanes)
    for (int i = 0; i < lanes; ++i) lane[i] = step(lane[i], word_at(p + 8 * i));
  std::byte rest[8 * lanes] = {};
  if (left > 0) std::memcpy(rest, p, left);
  for (int i = 0; i < lanes; ++i) lane[i] = step(lane[i], word_at(rest + 8 * i));
  std::uint64_t sum = bytes.size();
  for (const std::uint64_t value : lane) sum = step(sum, value);
  sum ^= sum >> 32;
  return sum * odd;
}

}  // namespace quern::runtime
