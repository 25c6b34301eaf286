// See git_hash.hpp.
#include "git_hash.hpp"

#include "quern/base/files.hpp"
#include "quern/graph/file_error.hpp"

#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

namespace quern::hub {
namespace {

// The hub keeps larger ones by their SHA-256.
constexpr std::uint64_t most_bytes = 64 << 20;

using State = std::array<std::uint32_t, 5>;

void add_block(State& state, std::string_view block) {
  std::array<std::uint32_t, 80> words{};
  for (std::size_t i = 0; i < 64; ++i) words[i / 4] = words[i / 4] << 8 | static_cast<unsigned char>(block[i]);
  for (std::size_t i = 16; i < 80; ++i) words[i] = std::rotl(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
  auto [a, b, c, d, e] = state;
  for (std::size_t i = 0; i < 80; ++i) {
    std::uint32_t mixed = b ^ c ^ d, constant = i < 40 ? 0x6ED9EBA1 : 0xCA62C1D6;
    if (i < 20) {
      mixed = (b & c) | (~b & d);
      constant = 0x5A827999;
    } else if (i >= 40 && i < 60) {
      mixed = (b & c) | (b & d) | (c & d);
      constant = 0x8F1BBCDC;
    }
    const std::uint32_t next = std::rotl(a, 5) + mixed + e + constant + words[i];
    e = d;
    d = c;
    c = std::rotl(b, 30);
    b = a;
    a = next;
  }
  state = {state[0] + a, state[1] + b, state[2] + c, state[3] + d, state[4] + e};
}

std::string sha1_of(std::string text) {
  const std::uint64_t bits = 8 * std::uint64_t{text.size()};
  text += '\x80';
  text.resize((text.size() + 8 + 63) / 64 * 64 - 8);
  for (int shift = 56; shift >= 0; shift -= 8) text += static_cast<char>(bits >> shift);
  State state = {0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0};
  for (std::size_t at = 0; at < text.size(); at += 64) add_block(state, std::string_view(text).substr(at, 64));
  std::string digits;
  for (const std::uint32_t word : state)
    for (int shift = 28; shift >= 0; shift -= 4) digits += "0123456789abcdef"[word >> shift & 15];
  return digits;
}

}  // namespace

std::string git_hash_of_file(const std::string& path) {
  std::string bytes;
  check_read(base::read_file(path, bytes, {.most = most_bytes}));
  return sha1_of(concat("blob ", bytes.size(), std::string_view("\0", 1), bytes));
}

}  // namespace quern::hub
