// Memory and processors as control groups leave them, on staged trees of /proc and /sys.
#include "quern/loader/host_limits.hpp"

#include "fixture.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace quern::loader {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t mib = 1 << 20, machine_total = 8192 * mib, machine_available = 6000 * mib;
const ProcessLimits no_limits;

/// A machine of 8 GiB, 6,000 MiB of which are available, and one processor at least.
struct Staged {
  Staged() {
    write(
        "proc/meminfo",
        "MemTotal:        8388608 kB\nMemFree:          100000 kB\nMemAvailable:    6144000 kB\nHugePages_Total:       0\nCached: 5000000 kB\n");
  }
  void write(const std::string& path, const std::string& text) { write_file(root / path, text); }
  /// One hierarchy of version 2 at /sys/fs/cgroup.
  void unified(const std::string& group) {
    write("proc/self/cgroup", "0::" + group + "\n");
    write("proc/self/mountinfo",
          "22 1 0:20 / /proc rw - proc proc rw\n31 1 0:28 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
    std::filesystem::create_directories((root / "sys/fs/cgroup") + group);
  }
  /// Memory and cpu of version 1, as systemd mounts them, beside an empty version 2.
  void separate(const std::string& group) {
    write("proc/self/cgroup", "12:cpu,cpuacct:" + group + "\n4:memory:" + group + "\n1:name=systemd:" + group + "\n0::" + group + "\n");
    write("proc/self/mountinfo",
          "32 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
          "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
          "40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"
          "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    for (const char* mount : {"memory", "cpu,cpuacct", "systemd", "unified"})
      std::filesystem::create_directories((root / "sys/fs/cgroup/") + mount + group);
  }
  HostMemory memory(const ProcessLimits& limits = no_limits) const { return host_memory(root.path(), limits); }
  std::uint32_t processors() const { return usable_processors(root.path()); }

  Folder root;
};

TEST(HostLimits, WithoutAGroupTheMachineIsWhatThereIs) {
  const Staged s;
  EXPECT_EQ(s.memory().total, machine_total);
  EXPECT_EQ(s.memory().available, machine_available);
  EXPECT_EQ(s.memory().limit, "");
  EXPECT_GE(s.processors(), 1u);
}

TEST(HostLimits, AMachineThatSaysNothingIsUnknownAndNotEmpty) {
  const Folder empty;
  EXPECT_EQ(host_memory(empty.path(), no_limits).total, 0u);
  EXPECT_EQ(host_memory(empty.path(), no_limits).available, std::nullopt);
  EXPECT_EQ(usable_processors(empty.path()), usable_processors("/nonexistent"));
}

TEST(HostLimits, AGroupOfVersion2LeavesItsLimitLessWhatCannotGo) {
  Staged s;
  s.unified("/box");
  s.write("sys/fs/cgroup/box/memory.max", "314572800\n");
  s.write("sys/fs/cgroup/box/memory.high", "max\n");
  s.write("sys/fs/cgroup/box/memory.current", "209715200\n");
  s.write("sys/fs/cgroup/box/memory.stat", "anon 50331648\nfile 150000000\nactive_file 31457280\ninactive_file 104857600\n");
  EXPECT_EQ(s.memory().total, 300 * mib);
  EXPECT_EQ(s.memory().available, (300 - 200 + 30 + 100) * mib);
  EXPECT_EQ(s.memory().limit, "the control group '/box' may have 300.0 MiB");
}

TEST(HostLimits, MemoryHighCountsAsTheLimitThatItIs) {
  Staged s;
  s.unified("/box");
  s.write("sys/fs/cgroup/box/memory.max", "max\n");
  s.write("sys/fs/cgroup/box/memory.high", "104857600\n");
  s.write("sys/fs/cgroup/box/memory.current", "1048576\n");
  EXPECT_EQ(s.memory().total, 100 * mib);
  EXPECT_EQ(s.memory().available, 99 * mib);
}

TEST(HostLimits, EveryGroupAboveCountsToo) {  // a slice of systemd holds a service holds a container
  Staged s;
  s.unified("/app.slice/app.service/box");
  s.write("sys/fs/cgroup/app.slice/app.service/box/memory.max", "1073741824\n");
  s.write("sys/fs/cgroup/app.slice/app.service/box/memory.current", "0\n");
  s.write("sys/fs/cgroup/app.slice/memory.max", "536870912\n");
  s.write("sys/fs/cgroup/app.slice/memory.current", "268435456\n");
  s.write("sys/fs/cgroup/app.slice/cpu.max", "50000 100000\n");
  EXPECT_EQ(s.memory().total, 512 * mib);
  EXPECT_EQ(s.memory().available, 256 * mib);
  EXPECT_THAT(s.memory().limit, HasSubstr("'/app.slice'"));
  EXPECT_EQ(s.processors(), 1u);
}

TEST(HostLimits, AGroupThatIsFullLeavesNothing) {
  Staged s;
  s.unified("/box");
  s.write("sys/fs/cgroup/box/memory.max", "1048576\n");
  s.write("sys/fs/cgroup/box/memory.current", "2097152\n");
  EXPECT_EQ(s.memory().available, 0u);
}

TEST(HostLimits, AGroupOfVersion1CountsWithTheGroupsBelowIt) {
  Staged s;
  s.separate("/docker/abc");
  s.write("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "314572800\n");
  s.write("sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "209715200\n");
  s.write("sys/fs/cgroup/memory/docker/abc/memory.stat",
          "inactive_file 1\nactive_file 1\ntotal_inactive_file 104857600\ntotal_active_file 0\n");
  s.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  s.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "9000000000\n");
  EXPECT_EQ(s.memory().total, 300 * mib);
  EXPECT_EQ(s.memory().available, 200 * mib);
}

TEST(HostLimits, TheNumberThatVersion1HasForNoLimitIsNone) {
  Staged s;
  s.separate("/docker/abc");
  for (const char* group : {"", "docker/", "docker/abc/"}) {
    s.write(std::string("sys/fs/cgroup/memory/") + group + "memory.limit_in_bytes", "9223372036854771712\n");
    s.write(std::string("sys/fs/cgroup/memory/") + group + "memory.memsw.limit_in_bytes", "9223372036854771712\n");
    s.write(std::string("sys/fs/cgroup/memory/") + group + "memory.usage_in_bytes", "9000000000\n");
  }
  EXPECT_EQ(s.memory().total, machine_total);
  EXPECT_EQ(s.memory().available, machine_available);
  EXPECT_EQ(s.memory().limit, "");
}

TEST(HostLimits, MemoryAndSwapTogetherAreALimitOfVersion1) {
  Staged s;
  s.separate("/box");
  s.write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "104857600\n");
  s.write("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "10485760\n");
  s.write("sys/fs/cgroup/memory/box/memory.memsw.limit_in_bytes", "104857600\n");
  s.write("sys/fs/cgroup/memory/box/memory.memsw.usage_in_bytes", "94371840\n");  // 80 MiB were swapped
  EXPECT_EQ(s.memory().available, 10 * mib);
}

TEST(HostLimits, AGroupAboveThatCountsForItselfAloneLimitsNothing) {
  Staged s;
  s.separate("/old/box");
  s.write("sys/fs/cgroup/memory/old/memory.use_hierarchy", "0\n");
  s.write("sys/fs/cgroup/memory/old/memory.limit_in_bytes", "1048576\n");
  s.write("sys/fs/cgroup/memory/old/memory.usage_in_bytes", "0\n");
  EXPECT_EQ(s.memory().available, machine_available);
  s.write("sys/fs/cgroup/memory/old/memory.use_hierarchy", "1\n");
  EXPECT_EQ(s.memory().available, 1 * mib);
}

TEST(HostLimits, AContainerSeesItsGroupAtTheMountPoint) {
  Staged s;  // without a namespace: the mount shows one group, and the path is the host's
  s.write("proc/self/cgroup", "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n");
  s.write("proc/self/mountinfo",
          "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
          "36 31 0:33 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n");
  s.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "104857600\n");
  s.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1048576\n");
  s.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n");
  s.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(s.memory().available, 99 * mib);
  EXPECT_EQ(s.processors(), 1u);
}

TEST(HostLimits, APathOfAnotherNamespaceLeadsToTheMountPoint) {
  Staged s;
  s.write("proc/self/cgroup", "0::/../outside\n");
  s.write("proc/self/mountinfo", "31 1 0:28 /.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  s.write("sys/fs/cgroup/memory.max", "104857600\n");
  s.write("sys/fs/cgroup/memory.current", "0\n");
  EXPECT_EQ(s.memory().available, 100 * mib);
}

TEST(HostLimits, AMountOfAnotherGroupIsNotOurs) {
  Staged s;
  s.unified("/box");
  s.write("proc/self/mountinfo",
          "31 1 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n32 1 0:28 /boxed /mnt/other rw - cgroup2 cgroup2 rw\n");
  s.write("mnt/other/memory.max", "1048576\n");
  s.write("mnt/other/memory.current", "0\n");
  EXPECT_EQ(s.memory().available, machine_available);
}

TEST(HostLimits, MountPointsMayHaveSpaces) {
  Staged s;
  s.write("proc/self/cgroup", "0::/a b\n");
  s.write("proc/self/mountinfo", "31 1 0:28 / /my\\040groups rw - cgroup2 cgroup2 rw\n");
  s.write("my groups/a b/memory.max", "104857600\n");
  s.write("my groups/a b/memory.current", "0\n");
  EXPECT_EQ(s.memory().available, 100 * mib);
}

TEST(HostLimits, FilesThatAreNotThereOrSayNothingLimitNothing) {
  Staged s;
  s.unified("/box");
  s.write("sys/fs/cgroup/box/memory.max", "");
  s.write("sys/fs/cgroup/box/cpu.max", "max 100000\n");
  EXPECT_EQ(s.memory().available, machine_available);
  EXPECT_EQ(s.processors(), usable_processors("/nonexistent"));
  s.write("proc/self/mountinfo", "no mounts\n- \n31 1 0:28 /\n");
  s.write("proc/self/cgroup", "nothing\n:\n0:\n");
  EXPECT_EQ(s.memory().available, machine_available);
}

TEST(HostLimits, AQuotaIsRoundedUpAndAtLeastOne) {
  Staged s;
  s.unified("/box");
  const std::uint32_t all = usable_processors("/nonexistent");
  for (const auto& [text, threads] : {std::pair{"1000 100000\n", 1u},
                                      {"100000 100000\n", 1u},
                                      {"100001 100000\n", 2u},
                                      {"250000 100000\n", 3u},
                                      {"-1 100000\n", all},
                                      {"100000 0\n", all},
                                      {"9223372036854775807 1\n", all}}) {
    s.write("sys/fs/cgroup/box/cpu.max", text);
    EXPECT_EQ(s.processors(), std::min(threads, all)) << text;
  }
}

TEST(HostLimits, AQuotaOfVersion1CountsInEachGroup) {
  Staged s;
  s.separate("/a/b");
  s.write("sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "-1\n");
  s.write("sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(s.processors(), usable_processors("/nonexistent"));
  s.write("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "50000\n");
  s.write("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(s.processors(), 1u);
}

TEST(HostLimits, TheLimitsOfTheProcessCountWithWhatItHas) {
  Staged s;
  s.write("proc/self/status", "Name:\tquern\nVmPeak:\t  300000 kB\nVmSize:\t  204800 kB\nVmData:\t   10240 kB\n");
  EXPECT_EQ(s.memory({1000 * mib, std::nullopt}).available, 800 * mib);
  EXPECT_EQ(s.memory({1000 * mib, std::nullopt}).total, 1000 * mib);
  EXPECT_THAT(s.memory({1000 * mib, std::nullopt}).limit, HasSubstr("1000.0 MiB of addresses (ulimit -v)"));
  EXPECT_EQ(s.memory({std::nullopt, 100 * mib}).available, 90 * mib);
  EXPECT_EQ(s.memory({100 * mib, std::nullopt}).available, 0u);
}

}  // namespace
}  // namespace quern::loader
