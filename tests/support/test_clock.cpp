// See test_clock.hpp.
#include "test_clock.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <ctime>

namespace quern::test {
namespace {

constexpr std::int64_t second = 1'000'000'000, true_time = -1;
std::atomic<std::int64_t> ahead{0}, stepped{true_time}, a_step{0};

using GetTime = int (*)(clockid_t, timespec*);

GetTime libc() noexcept {
  static const auto get = reinterpret_cast<GetTime>(dlsym(RTLD_NEXT, "clock_gettime"));
  return get;
}

std::int64_t count(const timespec& time) { return std::int64_t{time.tv_sec} * second + time.tv_nsec; }

void set(timespec& time, std::int64_t nanoseconds) {
  time.tv_sec = nanoseconds / second;
  time.tv_nsec = nanoseconds % second;
}

int get_time(clockid_t clock, timespec* time) noexcept {
  const int status = libc()(clock, time);
  if (status != 0) return status;
  if (clock == CLOCK_REALTIME) set(*time, count(*time) + ahead);
  if (clock == CLOCK_MONOTONIC && stepped != true_time) set(*time, stepped += a_step);
  return status;
}

}  // namespace

TestClock::~TestClock() {
  ahead = 0;
  stepped = true_time;
}

void TestClock::be_ahead(std::chrono::nanoseconds by) const { ahead = by.count(); }

void TestClock::step(std::chrono::nanoseconds by) const {
  timespec now{};
  libc()(CLOCK_MONOTONIC, &now);
  a_step = by.count();
  stepped = count(now);
}

}  // namespace quern::test

extern "C" __attribute__((visibility("default"))) int clock_gettime(clockid_t clock, timespec* time) noexcept {
  return quern::test::get_time(clock, time);
}
