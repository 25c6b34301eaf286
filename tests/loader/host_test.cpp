// The host table: memory is counted, wrong releases are caught, options are looked up per plugin.
#include "host.hpp"

#include "fixture.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

namespace quern::loader {
namespace {

using testing::HasSubstr;

TEST(HostTable, CountsMemoryInTotalAndByTag) {
  Host host("x", {}, {});
  const quern_host* t = host.table();
  void* a = t->allocate(t->context, 100, 64, "weights");
  void* b = t->allocate(t->context, 50, 4096, "scratch");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b) % 4096, 0u);
  t->release(t->context, a, 100, 64);
  EXPECT_EQ(host.total().live_bytes, 50u);
  EXPECT_EQ(host.total().peak_bytes, 150u);
  EXPECT_EQ(host.by_tag().at("weights").live_bytes, 0u);
  EXPECT_EQ(host.by_tag().at("scratch").allocations, 1u);
  t->release(t->context, b, 50, 4096);
  EXPECT_EQ(host.total().live_bytes, 0u);
}

TEST(HostTable, RefusesABadAlignmentAndAnImpossibleSizeWithNull) {
  Host host("x", {}, {});
  const quern_host* t = host.table();
  EXPECT_EQ(t->allocate(t->context, 8, 3, "bad"), nullptr);
  EXPECT_EQ(t->allocate(t->context, 8, 0, "bad"), nullptr);
  EXPECT_EQ(t->allocate(t->context, UINT64_MAX, 64, "bad"), nullptr);
  EXPECT_EQ(host.total().failures, 3u);
  void* empty = t->allocate(t->context, 0, 64, nullptr);
  EXPECT_NE(empty, nullptr);
  t->release(t->context, empty, 0, 64);
}

TEST(HostTable, CatchesAForeignReleaseAndAWrongSize) {
  std::vector<std::string> lines;
  Host host("x", {}, [&](std::uint32_t, std::string_view component, std::string_view text) {
    lines.push_back(std::string(component) + ": " + std::string(text));
  });
  const quern_host* t = host.table();
  int mine = 0;
  t->release(t->context, &mine, 4, 4);
  void* a = t->allocate(t->context, 100, 64, "a");
  t->release(t->context, a, 99, 64);
  t->release(t->context, a, 100, 64);  // twice
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_THAT(lines[0], HasSubstr("x.host: released memory that the host did not give out"));
  EXPECT_THAT(lines[1], HasSubstr("another size"));
}

TEST(HostTable, OptionsTellTheirLengthAndNeverWriteBeyondTheCapacity) {
  HostOptions options;
  options.options["force_kernel"] = "avx512";
  Host host("x", options, {});
  const quern_host* t = host.table();
  char small[4] = {'-', '-', '-', '-'};
  EXPECT_EQ(t->option(t->context, "force_kernel", small, 3), 6u);
  EXPECT_EQ(std::string(small, 4), "avx-");
  EXPECT_EQ(t->option(t->context, "force_kernel", nullptr, 0), 6u);
  EXPECT_EQ(t->option(t->context, "nothing", small, 4), UINT64_MAX);
  EXPECT_EQ(t->option(t->context, nullptr, small, 4), UINT64_MAX);
}

TEST(HostTable, EachPluginSeesItsOwnOptionsOnly) {
  Settings s;
  s.force_kernel.set({{"cpu", "avx2"}}, "QUERN_FORCE_KERNEL");
  s.deterministic.set(true, "QUERN_DETERMINISTIC");
  s.options = {{"shared", "1"}, {"cpu.shared", "2"}, {"cuda.only", "3"}};
  s.threads.set(3, "QUERN_THREADS");
  const HostOptions cpu = host_options("cpu", s), cuda = host_options("cuda", s);
  EXPECT_EQ(cpu.options, (std::map<std::string, std::string>{{"deterministic", "1"}, {"force_kernel", "avx2"}, {"shared", "2"}}));
  EXPECT_EQ(cuda.options, (std::map<std::string, std::string>{{"deterministic", "1"}, {"only", "3"}, {"shared", "1"}}));
  EXPECT_EQ(cpu.threads, 3u);
}

TEST(HostTable, ASinkThatThrowsDoesNotReachThePlugin) {
  Host host("x", {}, [](std::uint32_t, std::string_view, std::string_view) { throw std::runtime_error("full disk"); });
  const quern_host* t = host.table();
  t->log(t->context, QUERN_LOG_INFO, {"a", 1}, {nullptr, 100});
}

TEST(HostTable, IsSafeFromManyThreads) {
  Host host("x", {}, {});
  const quern_host* t = host.table();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([t] {
      for (int n = 0; n < 1000; ++n) t->release(t->context, t->allocate(t->context, 64, 64, "loop"), 64, 64);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(host.total().live_bytes, 0u);
  EXPECT_EQ(host.total().allocations, 4000u);
}

TEST(HostTable, ACpuQuotaOfTheControlGroupLimitsTheThreads) {
  Machine m;
  Settings s = m.settings();
  write_file(m.root / "proc/self/cgroup", "0::/\n");
  write_file(m.root / "proc/self/mountinfo", "1 1 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n");
  write_file(m.root / "sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(host_options("cpu", s).threads, 1u);
  s.threads.set(3, "QUERN_THREADS");
  EXPECT_EQ(host_options("cpu", s).threads, 3u) << "what the user says";
}

}  // namespace
}  // namespace quern::loader
