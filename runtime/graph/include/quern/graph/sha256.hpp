// SHA-256 (FIPS 180-4), to name files by their content. Not for secrets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace quern {

class Sha256 {
 public:
  void add(std::span<const std::byte> bytes) noexcept;
  /// 64 hex digits. Ends the sum: add() may not follow.
  std::string finish();

 private:
  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> rest_{};
  std::uint64_t size_ = 0;
};

std::string sha256_of(std::string_view text);
/// Empty if the file cannot be read.
std::string sha256_of_file(const std::string& path);

}  // namespace quern
