// Host memory of large cases: what does not fit is said, what fits beside others waits for them.
#include "worker/host_memory.hpp"

#include "support/asleep.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace quern::conformance {
namespace {

constexpr std::uint64_t gib = std::uint64_t{1} << 30;

TEST(HostMemory, ACaseThatDoesNotFitIsToldWhatItNeedsAndWhatThereIs) {
  HostMemory memory(0, [] { return 10 * gib; });
  std::string lacking;
  { const auto held = memory.reserve(9 * gib - 64, lacking); }  // a tenth stays with the machine
  EXPECT_EQ(lacking, "");
  const auto none = memory.reserve(10 * gib, lacking);
  EXPECT_EQ(lacking, "the case needs 10240 MiB of host memory, 10240 MiB are available");
  EXPECT_FALSE(none.large());
}

TEST(HostMemory, ALimitHoldsBelowWhatThereIs) {
  HostMemory memory(2 * gib, [] { return 10 * gib; });
  std::string lacking;
  { const auto held = memory.reserve(2 * gib, lacking); }
  EXPECT_EQ(lacking, "");
  const auto none = memory.reserve(2 * gib + 1, lacking);
  EXPECT_EQ(lacking, "the case needs 2048 MiB of host memory, --memory allows 2048 MiB");
}

TEST(HostMemory, SmallCasesAreNotCounted) {
  HostMemory memory(1, [] { return std::uint64_t{0}; });
  std::string lacking;
  const auto held = memory.reserve(HostMemory::worth_counting - 1, lacking);
  EXPECT_EQ(lacking, "");
}

TEST(HostMemory, ACaseWaitsUntilItFitsBesideTheOthers) {
  HostMemory memory(3 * gib, [] { return 100 * gib; });
  std::string lacking, other_lacking;
  std::atomic<bool> got{false};
  std::atomic<pid_t> asking{0};
  std::thread other;
  {
    const auto first = memory.reserve(2 * gib, lacking);
    other = std::thread([&] {
      asking = gettid();
      const auto second = memory.reserve(2 * gib, other_lacking);
      got = true;
    });
    while (asking == 0) std::this_thread::yield();
    quern::test::wait_until_asleep(asking);
    EXPECT_FALSE(got);
  }
  other.join();
  EXPECT_TRUE(got);
  EXPECT_EQ(lacking + other_lacking, "");
}

}  // namespace
}  // namespace quern::conformance
