// A run of the queued plugin that never ends (test_fault.hpp).
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace quern::test {

/// The first run that the device is given stays in its queue for ever, as long as the object lives.
class HangingRun {
 public:
  HangingRun() {
    EXPECT_EQ(::pipe(ends_), 0);
    ::setenv("QUERN_TEST_WAIT", std::to_string(ends_[1]).c_str(), 1);  // NOLINT(concurrency-mt-unsafe): no other thread reads it now
    ::setenv("QUERN_TEST_FAULT", "fence_wait:hang", 1);                // NOLINT(concurrency-mt-unsafe)
  }
  ~HangingRun() {
    ::unsetenv("QUERN_TEST_FAULT");  // NOLINT(concurrency-mt-unsafe)
    ::unsetenv("QUERN_TEST_WAIT");   // NOLINT(concurrency-mt-unsafe)
    for (const int end : ends_) ::close(end);
  }
  HangingRun(const HangingRun&) = delete;
  HangingRun& operator=(const HangingRun&) = delete;
  void wait_until_it_hangs() const {
    char byte = 1;
    EXPECT_EQ(::read(ends_[0], &byte, 1), 1);
  }

 private:
  int ends_[2] = {-1, -1};
};

}  // namespace quern::test
