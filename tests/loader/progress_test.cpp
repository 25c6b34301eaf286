// A process that is slow and one that hangs are told apart by what they did.
#include "progress.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

namespace quern::loader {
namespace {

using std::chrono::milliseconds;

/// Asks a watch with a limit of 1,000 ms every 20 ms, of a process that has done `work(t)` after t ms. The time when it is judged to hang;
/// 0: not within 20 s. Once, after 500 ms, all stand still for `pause` ms.
template <typename F>
long hangs_after(F work, std::string* passed = nullptr, long pause = 0) {
  const HangWatch::Clock::time_point start{};
  long t = 0;
  HangWatch watch(
      milliseconds(1000), [&] { return work(t); }, start);
  for (long by_the_clock = 20; by_the_clock < 20000; by_the_clock += 20) {
    if (by_the_clock == 500) by_the_clock += pause;
    t += 20;
    if (watch.hangs(start + milliseconds(by_the_clock))) {
      if (passed) *passed = watch.passed();
      return by_the_clock;
    }
  }
  return 0;
}

TEST(Hang, AProcessThatSleepsIsEndedAtItsLimit) {
  std::string passed;
  EXPECT_EQ(hangs_after([](long) { return Work{}; }, &passed), 1000);
  EXPECT_EQ(passed, "within 1000 ms");
}

TEST(Hang, ASuspendedMachineIsNobodysFault) {
  const auto nothing = [](long) { return Work{}; };
  EXPECT_EQ(hangs_after(nothing, nullptr, 10000), 10920) << "500 ms before, a tenth of a second for the pause, 420 ms after";
}

TEST(Hang, AProcessThatCannotBeSeenIsEndedAtItsLimit) {
  EXPECT_EQ(hangs_after([](long) { return std::optional<Work>(); }), 1000);
}

TEST(Hang, AFullProcessorIsEndedAtItsLimitOfComputing) {
  std::string passed;
  EXPECT_EQ(hangs_after([](long t) { return Work{milliseconds(t), 0, {}}; }, &passed), 1000);
  EXPECT_EQ(passed, "in 1000 ms of processor time");
  EXPECT_EQ(hangs_after([](long t) { return Work{milliseconds(t / 4), 0, {}}; }), 4000) << "a quarter of a processor";
}

TEST(Hang, ReadingFromADiskGoesOn) {
  EXPECT_EQ(hangs_after([](long t) {
              return Work{milliseconds(0), static_cast<std::uint64_t>(std::min(t, 2500l) / 100), {}};
            }),
            2800)
      << "it stopped at 2500";
}

TEST(Hang, ADiskThatDoesNotAnswerIsWaitedFor) {
  const auto half_of_it = [](long t) { return Work{{}, 0, milliseconds(std::min(t, 2500l) / 2)}; };
  EXPECT_EQ(hangs_after(half_of_it), 2600) << "it answers after 2500";
  EXPECT_EQ(hangs_after([](long t) { return Work{{}, 0, milliseconds(t / 3)}; }), 1000) << "other people's disk work";
}

TEST(Hang, WhatComputesLittleIsSlowAndWhatComputesNextToNothingHangs) {
  EXPECT_EQ(hangs_after([](long t) { return Work{milliseconds(t / 20), 0, {}}; }), 6000) << "six limits at most";
  EXPECT_EQ(hangs_after([](long t) { return Work{milliseconds(t / 25), 0, {}}; }), 1000);
}

TEST(Hang, ReadsTheKernelsNumbers) {
  // proc(5): field 2 is the name in brackets, 12 majflt, 14 utime, 15 stime.
  const std::string stat = "7 (a) b 1 2) S 1 2 3 4 5 6 70 80 9 100 11 12 13 14 15 16 17\n";
  const auto work =
      work_from(stat, "some avg10=0.02 avg60=1.24 avg300=5.67 total=896443235\nfull avg10=0.01 avg60=1.00 avg300=5.47 total=7\n");
  ASSERT_TRUE(work.has_value());
  EXPECT_EQ(work->pages_read, 9u);
  EXPECT_EQ(work->processor, milliseconds(23 * 1000 / ::sysconf(_SC_CLK_TCK)));
  EXPECT_EQ(work->disk_wait, std::chrono::microseconds(896443235));
  for (const char* unmeasured : {"", "some", "total=5"}) EXPECT_EQ(work_from(stat, unmeasured)->disk_wait.count(), 0) << unmeasured;
  EXPECT_FALSE(work_from("", "").has_value());
  EXPECT_FALSE(work_from("7 (a) S 1 2", "").has_value());
  EXPECT_TRUE(work_of(::getpid()).has_value());
  EXPECT_FALSE(work_of(0x7ffffff0).has_value());
}

}  // namespace
}  // namespace quern::loader
