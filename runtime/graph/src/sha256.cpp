// See sha256.hpp.
#include "quern/graph/sha256.hpp"

#include "sha256_blocks.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <vector>

namespace quern {
namespace {

void sha256_blocks(Sha256State& state, const std::byte* bytes, std::size_t count) noexcept {
  static const bool has_instructions = sha256_instructions();
  (has_instructions ? sha256_blocks_x86 : sha256_blocks_portable)(state, bytes, count);
}

}  // namespace

void Sha256::add(std::span<const std::byte> bytes) noexcept {
  while (!bytes.empty()) {
    const std::size_t held = size_ % 64, whole = held == 0 ? bytes.size() / 64 : 0;
    const std::size_t taken = whole > 0 ? whole * 64 : std::min<std::size_t>(64 - held, bytes.size());
    if (whole > 0) {
      sha256_blocks(state_, bytes.data(), whole);
    } else {
      std::memcpy(rest_.data() + held, bytes.data(), taken);
      if (held + taken == 64) sha256_blocks(state_, rest_.data(), 1);
    }
    size_ += taken;
    bytes = bytes.subspan(taken);
  }
}

std::string Sha256::finish() {
  const std::uint64_t bits = size_ * 8;
  std::vector<std::byte> tail(1 + (119 - size_ % 64) % 64 + 8);
  tail[0] = std::byte{0x80};
  for (std::size_t i = 0; i < 8; ++i) tail[tail.size() - 1 - i] = static_cast<std::byte>(bits >> 8 * i & 0xff);
  add(tail);
  std::string text;
  for (const std::uint32_t word : state_)
    for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[word >> shift & 15];
  return text;
}

std::string sha256_of(std::string_view text) {
  Sha256 sum;
  sum.add(std::as_bytes(std::span(text)));
  return sum.finish();
}

std::string sha256_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return {};
  Sha256 sum;
  std::vector<char> buffer(1 << 16);
  while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size())), in.gcount() > 0)
    sum.add(std::as_bytes(std::span(buffer.data(), static_cast<std::size_t>(in.gcount()))));
  return in.bad() ? std::string() : sum.finish();
}

}  // namespace quern
