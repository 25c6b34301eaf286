// The pool over a driver of ours with 8 GiB: what it hands out, what it keeps, and what it says when there is no more.
#include "pool.hpp"

#include "quern/quern_sanitizer.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <random>
#include <vector>

// How many more times operator new gives this program memory; below zero: as often as it is asked. Sanitizers have their own.
static int allocations_left = -1;
#if QUERN_SANITIZER == 0
void* operator new(std::size_t size) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  if (void* p = std::malloc(size == 0 ? 1 : size)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
#endif

namespace quern::cuda {
namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20, card_memory = std::uint64_t{8} << 30;

class PoolTest : public testing::Test {
 protected:
  PoolTest() : driver_(Driver::open(QUERN_TEST_FAKE_DRIVER)), pool_(*driver_, 0, card_memory) {}
  std::uint64_t free_memory() const {
    std::size_t free = 0, total = 0;
    driver_->check(driver_->cuMemGetInfo_v2(&free, &total), "asking for free memory");
    return free;
  }
  std::shared_ptr<const Driver> driver_;
  Pool pool_;
};

TEST_F(PoolTest, TenThousandMixedCyclesDoNotGrow) {
  std::mt19937 random(1);
  std::map<DevicePointer, std::uint64_t> live;
  std::uint64_t most_taken = 0, mapped_half_way = 0;
  const auto mark = [](DevicePointer at, std::uint64_t bytes) {
    std::memset(reinterpret_cast<void*>(at), static_cast<int>(at >> 9 & 255), 1);
    std::memset(reinterpret_cast<char*>(at) + bytes - 1, static_cast<int>(at >> 9 & 255), 1);
  };
  const auto holds = [](DevicePointer at, std::uint64_t bytes) {
    const auto* memory = reinterpret_cast<const unsigned char*>(at);
    return memory[0] == (at >> 9 & 255) && memory[bytes - 1] == (at >> 9 & 255);
  };
  for (int cycle = 0; cycle < 10000; ++cycle) {
    if (live.size() == 40 || (!live.empty() && random() % 2 == 0)) {
      const auto at = std::next(live.begin(), random() % live.size());
      ASSERT_TRUE(holds(at->first, at->second)) << "another allocation wrote to it";
      pool_.give(at->first, at->second);
      live.erase(at);
      continue;
    }
    const std::uint64_t bytes = 1 + random() % (std::uint64_t{1} << (random() % 27));
    const DevicePointer memory = pool_.take(bytes, "a test");
    ASSERT_NE(memory, 0u);
    ASSERT_EQ(memory % Pool::alignment, 0u);
    const auto next = live.upper_bound(memory);
    ASSERT_TRUE(next == live.end() || memory + bytes <= next->first);
    ASSERT_TRUE(next == live.begin() || std::prev(next)->first + std::prev(next)->second <= memory);
    live.emplace(memory, bytes);
    mark(memory, bytes);
    most_taken = std::max(most_taken, pool_.statistics().taken);
    if (cycle < 5000) mapped_half_way = pool_.statistics().most_mapped;
  }
  // What is idle at most, and of each live allocation the rest of its pieces.
  EXPECT_LE(pool_.statistics().most_mapped, most_taken + Pool::most_idle + 40 * Pool::largest_piece);
  EXPECT_LE(pool_.statistics().most_mapped, mapped_half_way + mapped_half_way / 4);
  for (const auto& [memory, bytes] : live) pool_.give(memory, bytes);
  EXPECT_EQ(pool_.statistics().taken, 0u);
  EXPECT_LE(pool_.statistics().mapped, Pool::most_idle);
  pool_.trim();
  EXPECT_EQ(pool_.statistics().mapped, 0u);
  EXPECT_EQ(free_memory(), card_memory);
}

TEST_F(PoolTest, WhatIsNotThereIsNotTakenAndLeavesNothingBehind) {
  const DevicePointer most = pool_.take(std::uint64_t{6} << 30, "a test");
  ASSERT_NE(most, 0u);
  EXPECT_EQ(pool_.take(std::uint64_t{3} << 30, "a test"), 0u);
  EXPECT_EQ(pool_.take(std::uint64_t{100} << 30, "a test"), 0u);  // more than there are addresses
  for (const std::uint64_t bytes : {UINT64_MAX - 1000, UINT64_MAX - 510, UINT64_MAX}) EXPECT_EQ(pool_.take(bytes, "a test"), 0u) << bytes;
  EXPECT_EQ(pool_.statistics().mapped, std::uint64_t{6} << 30);
  EXPECT_EQ(free_memory(), std::uint64_t{2} << 30);
  const DevicePointer rest = pool_.take(std::uint64_t{2} << 30, "a test");
  EXPECT_NE(rest, 0u);
  pool_.give(rest, std::uint64_t{2} << 30);
  pool_.give(most, std::uint64_t{6} << 30);
}

TEST_F(PoolTest, IdleMemoryMakesRoom) {
  std::vector<DevicePointer> small;
  for (int i = 0; i < 64; ++i) small.push_back(pool_.take(mib, "a test"));
  for (const DevicePointer memory : small) pool_.give(memory, mib);
  EXPECT_GT(pool_.statistics().mapped, 0u);  // idle, for the next taker
  const DevicePointer all = pool_.take(card_memory, "a test");
  EXPECT_NE(all, 0u);
  pool_.give(all, card_memory);
}

TEST_F(PoolTest, AHundredModelsDoNotGrow) {
  for (int model = 0; model < 100; ++model) {
    const std::uint64_t weights = 700 * mib + static_cast<std::uint64_t>(model % 7) * 1000, cache = 90 * mib, scratch = 12345;
    const DevicePointer a = pool_.take(weights, "weights"), b = pool_.take(cache, "a cache"), c = pool_.take(scratch, "scratch");
    ASSERT_TRUE(a != 0 && b != 0 && c != 0);
    pool_.give(b, cache);
    pool_.give(a, weights);
    pool_.give(c, scratch);
    ASSERT_LE(pool_.statistics().mapped, Pool::most_idle);
  }
  EXPECT_LE(pool_.statistics().most_mapped, 900 * mib);
}

TEST_F(PoolTest, AProcessWithoutMemoryLeavesNothingMapped) {
  if (QUERN_SANITIZER != 0) GTEST_SKIP() << "operator new is the sanitizer's";
  const std::uint64_t bytes = 3 * Pool::largest_piece;
  bool done = false;
  for (int allowed = 0; !done; ++allowed) {
    ASSERT_LT(allowed, 100);
    const DevicePointer before = pool_.take(mib, "a test"), between = pool_.take(mib, "a test"), behind = pool_.take(mib, "a test");
    DevicePointer memory = 0;
    allocations_left = allowed;
    try {
      memory = pool_.take(bytes, "a test");
      done = true;
    } catch (const std::bad_alloc&) {}
    allocations_left = 0;  // giving back never fails
    if (memory != 0) pool_.give(memory, bytes);
    pool_.give(before, mib);
    pool_.give(behind, mib);
    pool_.give(between, mib);
    allocations_left = -1;
    EXPECT_EQ(pool_.statistics().taken, 0u);
    pool_.trim();
    EXPECT_EQ(pool_.statistics().mapped, 0u);
    EXPECT_EQ(free_memory(), card_memory) << "with " << allowed << " allocations";
  }
}

}  // namespace
}  // namespace quern::cuda
