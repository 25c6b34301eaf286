// See sha256.hpp.
#include "quern/graph/sha256.hpp"

#include "sha256_blocks.hpp"

#include "quern/base/files.hpp"

#include <algorithm>
#include <cstring>
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
  base::OpenedFile file;
  if (base::open_file(path, file)) return {};
  Sha256 sum;
  std::vector<std::byte> buffer(1 << 16);
  const auto size = static_cast<std::uint64_t>(file.status.st_size);
  for (std::uint64_t at = 0; at < size; at += buffer.size()) {
    const auto piece = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), size - at));
    if (base::read_at(file.descriptor.get(), path, at, piece)) return {};
    sum.add(piece);
  }
  return sum.finish();
}

}  // namespace quern
