// Counts what this process takes from malloc, and can refuse it: how scripts see what a plugin allocates behind its counters.
//
// The program's own malloc stands in front of libc's for every library of the process, so operator new of a plugin is seen too. Under a
// sanitizer, which has its own, nothing is counted and available() is false.
#pragma once

#include <cstdint>

namespace quern::conformance {

/// Watches from its making to its end, all threads. One at a time.
class AllocationWatch {
 public:
  static bool available() noexcept;

  /// `fail_at`: the allocation of that number is refused (the first is 1); 0: none. `and_after`: so is every later one.
  explicit AllocationWatch(std::uint64_t fail_at = 0, bool and_after = false) noexcept;
  ~AllocationWatch();
  AllocationWatch(const AllocationWatch&) = delete;
  AllocationWatch& operator=(const AllocationWatch&) = delete;

  std::uint64_t count() const noexcept;  // asked for so far, refused ones included
  std::uint64_t refused() const noexcept;
};

}  // namespace quern::conformance
