// Uploads through pinned memory, over a driver of ours whose copies are done as late as they may: what is filled again, read or given back too
// early is seen. Its functions are replaced where one of them has to be refused.
#include "staging.hpp"

#include "error.hpp"
#include "sample_fixture.hpp"

#include "quern/quern_sanitizer.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <new>
#include <random>
#include <thread>

// How many more times operator new gives this program memory; below zero: as often as it is asked. Sanitizers have their own.
static std::atomic<int> allocations_left{-1};
#if QUERN_SANITIZER == 0
void* operator new(std::size_t size) {
  int left = allocations_left;
  while (left > 0 && !allocations_left.compare_exchange_weak(left, left - 1)) {}
  void* p = left == 0 ? nullptr : std::malloc(size == 0 ? 1 : size);
  return p != nullptr ? p : throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
#endif

namespace quern::cuda {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

using Bytes = std::vector<unsigned char>;

Bytes some_bytes(std::size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<std::uint64_t> words(count / 8 + 1);
  for (std::uint64_t& word : words) word = random();
  Bytes bytes(count);
  std::memcpy(bytes.data(), words.data(), count);
  return bytes;
}

class StagingTest : public testing::Test {
 protected:
  void SetUp() override {
    setenv("FAKE_LATE", "1", 1);
    real = *Driver::open("libcuda.so.1");
    driver = real;
    copies_until_refused = refusals = pinned = events = 0;
    driver.cuMemHostAlloc = [](void** memory, std::size_t bytes, unsigned flags) {
      const Result result = real.cuMemHostAlloc(memory, bytes, flags);
      pinned += result == constant::success;
      return result;
    };
    driver.cuMemFreeHost = [](void* memory) {
      --pinned;
      return real.cuMemFreeHost(memory);
    };
    driver.cuEventCreate = [](Event* event, unsigned flags) {
      const Result result = real.cuEventCreate(event, flags);
      events += result == constant::success;
      return result;
    };
    driver.cuEventDestroy_v2 = [](Event event) {
      --events;
      return real.cuEventDestroy_v2(event);
    };
    driver.cuMemcpyHtoDAsync_v2 = [](DevicePointer to, const void* from, std::size_t bytes, Stream stream) {
      if (copies_until_refused > 0 && --copies_until_refused == 0) return ++refusals, constant::unknown;
      return real.cuMemcpyHtoDAsync_v2(to, from, bytes, stream);
    };
  }
  void TearDown() override {
    EXPECT_EQ(pinned, 0);
    EXPECT_EQ(events, 0);
    unsetenv("FAKE_LATE");
  }

  static DevicePointer place(Bytes& memory, std::size_t offset = 0) { return reinterpret_cast<DevicePointer>(memory.data() + offset); }

  static inline Driver real;  // what the functions below hand on to
  static inline std::atomic<int> copies_until_refused, refusals, pinned, events;
  Driver driver;
  std::vector<std::string> warnings;
  std::function<void(const std::string&)> warn = [this](const std::string& text) { warnings.push_back(text); };
};

TEST_F(StagingTest, EveryByteArrivesWhateverTheSizeAndTheNumberOfThreads) {
  for (const unsigned threads : {1u, 3u, 100u}) {
    Staging staging(driver, nullptr, threads, warn);
    EXPECT_EQ(pinned, 0) << "before there is anything to upload";
    for (const std::size_t size : {40 * mib + 12345, mib + 1, 2 * mib, 3 * mib - 1}) {  // the first takes memory
      Bytes bytes = some_bytes(size, threads), expected(size + 10, 7), card = expected;
      std::ranges::copy(bytes, expected.begin() + 3);
      ASSERT_TRUE(staging.upload(place(card, 3), bytes.data(), size, nullptr));
      std::ranges::fill(bytes, 0);  // it is the caller's again
      ASSERT_EQ(real.cuStreamSynchronize(nullptr), constant::success);
      ASSERT_TRUE(card == expected) << size << " bytes by " << threads << " threads";
    }
  }
  EXPECT_TRUE(warnings.empty());
}

TEST_F(StagingTest, WhatIsSmallIsLeftToTheDriver) {
  Staging staging(driver, nullptr, 4, warn);
  Bytes bytes(Staging::piece_bytes), card = bytes;
  for (std::uint64_t sent = 0; sent < 2 * staging.memory_bytes(); sent += bytes.size())
    EXPECT_FALSE(staging.upload(place(card), bytes.data(), bytes.size(), nullptr));
  EXPECT_EQ(pinned, 0);
}

TEST_F(StagingTest, MemoryIsTakenOnceTheDriverHasCopiedAsMuch) {
  Staging staging(driver, nullptr, 4, warn);
  const Bytes bytes = some_bytes(3 * mib, 9);
  Bytes card(bytes.size());
  for (int round = 0; round < 2; ++round) {
    for (const bool taken : {false, false, true, true})
      EXPECT_EQ(staging.upload(place(card), bytes.data(), bytes.size(), nullptr), taken) << "3 MiB each, 8 are pinned";
    staging.give_back();
    EXPECT_EQ(pinned, 0);
  }
  for (int graph = 0; graph < 9; ++graph) {
    EXPECT_FALSE(staging.upload(place(card), bytes.data(), bytes.size(), nullptr))
        << "what came before memory was given back counts no more";
    staging.give_back();
  }
}

TEST_F(StagingTest, WhatIsOnItsWayArrivesThoughMemoryIsGivenBack) {
  Staging staging(driver, nullptr, 3, warn);
  for (int round = 0; round < 20; ++round) {
    const Bytes bytes = some_bytes(6 * mib + 1, 5);
    Bytes card(bytes.size());
    ASSERT_TRUE(staging.upload(place(card), bytes.data(), bytes.size(), nullptr));
    staging.give_back();
    EXPECT_EQ(pinned, 0);
    ASSERT_TRUE(card == bytes);
  }
}

TEST_F(StagingTest, WithoutPinnedMemoryThereIsOneWarning) {
  driver.cuMemHostAlloc = [](void**, std::size_t, unsigned) { return ++refusals, constant::out_of_memory; };
  Staging staging(driver, nullptr, 4, warn);
  Bytes bytes(9 * mib), card = bytes;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(staging.upload(place(card), bytes.data(), bytes.size(), nullptr));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("out of memory"), std::string::npos) << warnings[0];
  EXPECT_EQ(refusals, 1);
}

TEST_F(StagingTest, ARefusedCopyIsTheFailureAndTheNextUploadWorks) {
  Staging staging(driver, nullptr, 4, warn);
  const Bytes bytes = some_bytes(9 * mib + 1, 6);
  for (int refused = 1; refused <= 10; ++refused) {
    Bytes card(bytes.size());
    copies_until_refused = refused;
    try {
      staging.upload(place(card), bytes.data(), bytes.size(), nullptr);
      FAIL() << "copy " << refused << " was refused";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code, QUERN_INTERNAL);
      EXPECT_EQ(failure.native_code, constant::unknown);
      EXPECT_TRUE(failure.text.starts_with("upload: ")) << failure.text;
    }
    const Bytes after_failure = card;
    real.cuStreamSynchronize(nullptr);
    EXPECT_TRUE(card == after_failure) << "something was still on its way";
    ASSERT_TRUE(staging.upload(place(card), bytes.data(), bytes.size(), nullptr));
    real.cuStreamSynchronize(nullptr);
    EXPECT_TRUE(card == bytes);
  }
  EXPECT_EQ(refusals, 10);
}

TEST_F(StagingTest, AThreadThatCannotTakeTheContextTellsTheCaller) {
  driver.cuCtxPushCurrent_v2 = [](Context) { return constant::device_unavailable; };
  Staging staging(driver, nullptr, 4, warn);
  Bytes bytes(9 * mib), card = bytes;
  try {
    staging.upload(place(card), bytes.data(), bytes.size(), nullptr);
    FAIL();
  } catch (const Failure& failure) { EXPECT_EQ(failure.code, QUERN_DEVICE_LOST); }
}

TEST_F(StagingTest, AProcessWithoutMemoryUploadsWithFewerThreadsOrLeavesNothingBehind) {
  if (QUERN_SANITIZER != 0) GTEST_SKIP() << "operator new is the sanitizer's";
  unsetenv("FAKE_LATE");  // the driver takes memory for late copies
  const Bytes bytes = some_bytes(9 * mib, 7);
  Bytes card(bytes.size());
  warnings.reserve(1);
  int failed = 0;
  for (int allowed = 0; allowed < 40; ++allowed) {
    Staging staging(driver, nullptr, 4, warn);
    allocations_left = allowed;
    bool done = false;
    try {
      done = staging.upload(place(card), bytes.data(), bytes.size(), nullptr);
    } catch (const std::bad_alloc&) { ++failed; }
    allocations_left = -1;
    EXPECT_TRUE(!done || card == bytes) << "with " << allowed << " allocations";
    std::ranges::fill(card, 0);
  }
  EXPECT_GT(failed, 0);
  EXPECT_LT(failed, 40);
}

/// The plugin over that driver.
class CudaUploads : public quern_test::SampleTest {
 protected:
  void SetUp() override {
    setenv("FAKE_LATE", "1", 1);
    host.table.thread_count = 4;
    host.table.abi_minor = 0;  // it makes no queues
    host.table.log = [](void*, std::uint32_t, quern_string, quern_string text) { told.emplace_back(text.data, text.size); };
    told.clear();
    SampleTest::SetUp();
  }
  void TearDown() override {
    SampleTest::TearDown();
    unsetenv("FAKE_REFUSED");
    unsetenv("FAKE_LATE");
  }

  /// Uploads some 40 MB at odd offsets, and reads all back.
  void expect_arrival() {
    const Bytes bytes = some_bytes(41 * mib + 77, 8);
    Bytes expected = contents<unsigned char>(place);
    for (const auto& [offset, size] :
         {std::pair<std::size_t, std::size_t>{1, 40 * mib + 1}, {40 * mib + 2, 100}, {3 * mib + 5, 2 * mib + 3}}) {
      const unsigned char* from = bytes.data() + offset % 91;
      const quern_span to = {place.buffer, nullptr, offset, size};
      ASSERT_EQ(api.upload(device, nullptr, &to, from, size, nullptr, error), QUERN_OK) << error.text();
      std::copy_n(from, size, expected.begin() + static_cast<std::ptrdiff_t>(offset));
    }
    EXPECT_TRUE(contents<unsigned char>(place) == expected);
  }

  static inline std::vector<std::string> told;
  quern_span place;
};

TEST_F(CudaUploads, ArriveByteForByteAlsoAfterMemoryWasTrimmed) {
  place = buffer(42 * mib);
  expect_arrival();
  ASSERT_EQ(api.trim(device, 1, error), QUERN_OK) << error.text();
  expect_arrival();
  EXPECT_TRUE(told.empty());
}

TEST_F(CudaUploads, HaveNoThreadsAnyMoreOnceAnInstanceIsPrepared) {
  const auto threads = [] { return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}); };
  place = buffer(42 * mib);
  const auto before = threads();
  expect_arrival();
  EXPECT_EQ(threads(), before + 3);
  quern_test::GraphBuilder g;
  const auto x = g.value(QUERN_VALUE_INPUT, {4}), y = g.value(QUERN_VALUE_OUTPUT, {4});
  g.node(QUERN_OP_COPY, {x}, {y});
  const Ready r = ready(g, {{x, buffer(16)}, {y, buffer(16)}});
  EXPECT_EQ(r.prepared, QUERN_OK) << error.text();
  for (int i = 0; i < 100 && threads() != before; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // one that was joined is listed a little longer
  EXPECT_EQ(threads(), before);
  drop(r);
}

TEST_F(CudaUploads, ArriveWithOneWarningWherePinnedMemoryCannotBeUsed) {
  place = buffer(42 * mib);
  setenv("FAKE_REFUSED", "cuEventCreate=2", 1);
  expect_arrival();
  expect_arrival();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_NE(told[0].find("slower"), std::string::npos) << told[0];
}

}  // namespace
}  // namespace quern::cuda
