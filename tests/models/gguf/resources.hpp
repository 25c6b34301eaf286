// What a piece of code costs this process.
#pragma once

#include <cstdint>
#include <functional>

namespace quern::test {

struct Cost {
  std::uint64_t peak_bytes = 0;  ///< growth of the peak of resident memory
  double seconds = 0;
};

/// Zero peak where the system does not let a process reset its peak.
Cost cost_of(const std::function<void()>& work);

/// Resident pages of files (and of shared memory, for a temporary directory in memory), in bytes.
std::uint64_t resident_file_bytes();

/// Whether the program is built with AddressSanitizer, whose own memory spoils such numbers.
constexpr bool under_address_sanitizer() {
#if defined(__SANITIZE_ADDRESS__)
  return true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
  return true;
#else
  return false;
#endif
#else
  return false;
#endif
}

}  // namespace quern::test
