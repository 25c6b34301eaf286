// The pool's loops: every item once, in parts, whoever takes them. Internal, as packed_test.cpp.
#include "thread_pool.hpp"

#include "support/asleep.hpp"
#include "support/test_clock.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace quern::cpu {
namespace {

template <typename Body>
void run(ThreadPool& pool, std::int64_t count, std::int64_t grain, const Body& body,
         const std::atomic<std::uint32_t>* cancelled = nullptr) {
  pool.run(
      count, grain, cancelled,
      [](const void* argument, std::int64_t begin, std::int64_t end, std::uint32_t thread) {
        (*static_cast<const Body*>(argument))(begin, end, thread);
      },
      &body);
}

class Pools : public testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Threads, Pools, testing::Values(1u, 2u, 3u, 8u));

TEST_P(Pools, GiveOutEachItemOnceInPartsOfTheGrain) {
  ThreadPool pool(GetParam(), {});
  for (const std::int64_t count : {1, 2, 7, 8, 100, 1001})
    for (const std::int64_t grain : {0, 1, 3, 64, 2000}) {
      std::vector<std::atomic<int>> seen(static_cast<std::size_t>(count));
      std::atomic<int> wrong{0};
      run(pool, count, grain, [&](std::int64_t begin, std::int64_t end, std::uint32_t thread) {
        const std::int64_t part = grain > 0 ? grain : 1;
        if (begin % part != 0 || end - begin > part || end <= begin || end > count || thread >= GetParam()) ++wrong;
        for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
      });
      EXPECT_EQ(wrong, 0) << count << " in parts of " << grain;
      for (const auto& times : seen) ASSERT_EQ(times, 1) << count << " in parts of " << grain;
    }
}

TEST_P(Pools, RunManyShortLoopsAfterEachOther) {
  ThreadPool pool(GetParam(), {});
  std::atomic<std::int64_t> sum{0};
  for (int loop = 0; loop < 20000; ++loop)
    run(pool, 5, 1, [&](std::int64_t begin, std::int64_t, std::uint32_t) { sum.fetch_add(begin, std::memory_order_relaxed); });
  EXPECT_EQ(sum, 20000 * 10);
}

TEST(ThreadPool, HelpsAThreadThatIsHeldUp) {
  ThreadPool pool(2, {});
  std::atomic<int> done{0};
  // The thread that takes part 0 waits until all others are done: they can only be done by the other thread, or before by itself.
  run(pool, 64, 1, [&](std::int64_t begin, std::int64_t, std::uint32_t) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (begin == 0 && done < 63 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    ++done;
    if (begin == 0) { EXPECT_EQ(done, 64); }
  });
  EXPECT_EQ(done, 64);
}

TEST(ThreadPool, BeginsWithNeighbouringPartsAThread) {
  ThreadPool pool(2, {});
  // Both threads are there before either goes on, so each has its first part.
  std::atomic<int> arrived{0};
  std::atomic<std::int64_t> first[2] = {-1, -1};
  run(pool, 100, 1, [&](std::int64_t begin, std::int64_t, std::uint32_t thread) {
    std::int64_t none = -1;
    if (!first[thread].compare_exchange_strong(none, begin)) return;
    ++arrived;
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (arrived < 2 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  });
  EXPECT_EQ(first[0], 0);
  EXPECT_EQ(first[1], 50);
}

TEST_P(Pools, SkipPartsOnceALoopIsCancelled) {
  ThreadPool pool(GetParam(), {});
  std::atomic<std::uint32_t> cancelled{0};
  std::atomic<int> parts{0};
  run(
      pool, 1000, 1, [&](std::int64_t, std::int64_t, std::uint32_t) { ++parts, cancelled = 1; }, &cancelled);
  EXPECT_GE(parts, 1);
  EXPECT_LE(parts, static_cast<int>(GetParam()));  // what each had begun
}

/// A loop of eight parts; what `body` does is once a loop, under the turn.
template <typename Body>
void run_in(ThreadPool& pool, ThreadPool::Turn& turn, const Body& body) {
  pool.run(
      8, 1, nullptr,
      [](const void* argument, std::int64_t begin, std::int64_t, std::uint32_t) {
        if (begin == 0) (*static_cast<const Body*>(argument))();
      },
      &body, turn);
}

/// How often the turn goes from one of two callers to the other. The first has it, and half of its loops to go, when the second comes to wait.
int changes_of_two_callers(int loops) {
  ThreadPool pool(2, {});
  std::atomic<int> last{-1}, changes{0};
  const auto call = [&](ThreadPool::Turn& turn, int self) {
    run_in(pool, turn, [&] {
      if (last.exchange(self) != self) ++changes;
    });
  };
  std::atomic<pid_t> second{0};
  std::thread other;
  {
    ThreadPool::Turn turn(pool);
    for (int i = 0; i < loops / 2; ++i) call(turn, 0);
    other = std::thread([&] {
      second = gettid();
      ThreadPool::Turn own(pool);
      for (int i = 0; i < loops; ++i) call(own, 1);
    });
    while (second == 0) std::this_thread::yield();
    quern::test::wait_until_asleep(second);
    for (int i = loops / 2; i < loops; ++i) call(turn, 0);
  }
  other.join();
  return changes;
}

TEST(ThreadPool, TwoCallersChangeOnceASliceAndNotAfterEveryLoop) {
  const quern::test::TestClock clock;
  clock.step(std::chrono::nanoseconds(0));
  EXPECT_LE(changes_of_two_callers(1000), 2) << "no time passes: the first loop, and the change when one is done";
  // A caller looks at the clock once a loop, and twice while it waits for its turn. It gives up the turn a slice or more after it saw the
  // other waiting. So with a hundredth of a slice a look, a turn takes 100 looks, and c changes fit where 100 c <= 2 * 4000 + 2 c.
  clock.step(std::chrono::nanoseconds(ThreadPool::slice) / 100);
  const int changes = changes_of_two_callers(4000);
  EXPECT_LE(changes, 8000 / 98 + 2);
  EXPECT_GE(changes, 3) << "the first loop, to the one that waits, and back";
}

TEST(ThreadPool, ACallerThatNeverStopsLetsAnotherIn) {
  ThreadPool pool(2, {});
  std::atomic<bool> in{false};
  ThreadPool::Turn turn(pool);
  run_in(pool, turn, [] {});
  std::thread other([&] { run(pool, 8, 1, [&](std::int64_t, std::int64_t, std::uint32_t) { in = true; }); });
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!in && std::chrono::steady_clock::now() < limit) run_in(pool, turn, [] {});
  EXPECT_TRUE(in);
  other.join();
}

}  // namespace
}  // namespace quern::cpu
