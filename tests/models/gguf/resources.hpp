// What a piece of code costs this process.
#pragma once

#include "quern/quern_sanitizer.h"

#include <cstdint>
#include <functional>

namespace quern::test {

struct Cost {
  std::uint64_t peak_bytes = 0;  ///< growth of the peak of resident memory
  double processor_seconds = 0;
};

/// Zero peak where the system does not let a process reset its peak.
Cost cost_of(const std::function<void()>& work);

/// Resident pages of files (and of shared memory, for a temporary directory in memory), in bytes.
std::uint64_t resident_file_bytes();

/// Whether the program is built with a sanitizer, whose own memory spoils such numbers.
constexpr bool under_sanitizer() { return QUERN_SANITIZER != 0; }

}  // namespace quern::test
