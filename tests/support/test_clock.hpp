// The clocks of this program in a test's hand, so that no test waits for time to pass, nor depends on how much did.
//
// test_clock.cpp is linked into the test program: its clock_gettime stands before that of libc, also for libraries, so std::chrono's clocks
// in libquern and in plugins go by it. Files get their times from the kernel, by the true clock.
#pragma once

#include <chrono>

namespace quern::test {

/// What is set ends with the object. One at a time.
class TestClock {
 public:
  TestClock() = default;
  ~TestClock();
  TestClock(const TestClock&) = delete;
  TestClock& operator=(const TestClock&) = delete;

  /// The clock of the day is that far ahead of the true one: what was written now is that old.
  void be_ahead(std::chrono::nanoseconds by) const;
  /// The steady clock stands still but for `by` at each look at it.
  void step(std::chrono::nanoseconds by) const;
};

}  // namespace quern::test
