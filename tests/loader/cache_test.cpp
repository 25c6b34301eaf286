// Probe results are kept, believed only while nothing changed, and never believed when damaged.
#include "fixture.hpp"
#include "probe_cache.hpp"
#include "quern/graph/json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>

namespace quern::loader {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct CacheTest : testing::Test {
  CacheTest() { machine.add({"good"}); }
  bool was_kept() { return entry_of(Loader(machine.settings()).report(), "good").from_cache; }
  std::string file() { return ProbeCache(machine.root / "cache").file(machine.plugin("good")); }
  Machine machine;
};

TEST_F(CacheTest, TheSecondSearchAsksTheCache) {
  EXPECT_FALSE(was_kept());
  EXPECT_TRUE(was_kept());
  EXPECT_EQ(Loader(machine.settings()).open_best()->label(), "good:0");
}

TEST_F(CacheTest, ANewBootADriverOrAnotherPluginFileAsksAgain) {
  was_kept();
  write_file(machine.root / "proc/sys/kernel/random/boot_id", "another\n");
  EXPECT_FALSE(was_kept());
  EXPECT_TRUE(was_kept());
  write_file(machine.root / "proc/driver/nvidia/version", "NVRM version: 580\n");
  EXPECT_FALSE(was_kept());
  write_file(machine.root / "etc/ld.so.cache", "a package was installed");
  EXPECT_FALSE(was_kept());
  machine.add_card("0000:01:00.0", "0x10de", "0x2331");
  EXPECT_FALSE(was_kept());
  write_file(machine.root / "dev/nvidia0", "");
  EXPECT_FALSE(was_kept());
  EXPECT_TRUE(was_kept());
  fs::last_write_time(machine.plugin("good"), fs::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_FALSE(was_kept());
}

TEST_F(CacheTest, AVisibilityVariableAsksAgain) {
  was_kept();
  ASSERT_EQ(::setenv("VK_DRIVER_FILES", "/nowhere", 1), 0);
  EXPECT_FALSE(was_kept());
  ASSERT_EQ(::unsetenv("VK_DRIVER_FILES"), 0);
}

/// The linker finds libraries of the test's own in this folder.
struct LibraryFolder {
  explicit LibraryFolder(std::string folder) : path(std::move(folder)) { ::setenv("LD_LIBRARY_PATH", path.c_str(), 1); }
  ~LibraryFolder() { ::unsetenv("LD_LIBRARY_PATH"); }
  /// Another file at the same path, as a package's upgrade leaves it.
  void install(const std::string& soname, const std::string& animal) const {
    fs::create_directories(path);
    fs::copy_file(std::string(QUERN_ZOO) + "/libbackend_" + animal + ".so", path + "/new");
    fs::rename(path + "/new", path + "/" + soname);
  }
  std::string path;
};

TEST_F(CacheTest, AnotherFileOfTheDriversLibraryAsksAgain) {
  const LibraryFolder folder(machine.root / "lib");
  EXPECT_FALSE(was_kept());
  EXPECT_TRUE(was_kept());
  folder.install("libzoo_driver.so.1", "second");  // the note names it
  EXPECT_FALSE(was_kept());
  EXPECT_TRUE(was_kept());
  folder.install("libzoo_driver.so.1", "good");
  EXPECT_FALSE(was_kept());
  fs::last_write_time(folder.path + "/libzoo_driver.so.1", fs::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_FALSE(was_kept());
  folder.install("libanother.so.1", "good");
  EXPECT_TRUE(was_kept()) << "nothing that this plugin opens";
}

TEST_F(CacheTest, AnotherVulkanDriverAsksAgain) {
  machine.add({"vulkan"});
  const LibraryFolder folder(machine.root / "lib");
  Settings settings = machine.settings();
  settings.usr_root = machine.root / "usr";
  const auto vulkan_was_kept = [&] { return entry_of(Loader(settings).report(), "vulkan").from_cache; };
  EXPECT_FALSE(vulkan_was_kept());
  EXPECT_TRUE(vulkan_was_kept());
  folder.install("libvulkan.so.1", "good");
  EXPECT_FALSE(vulkan_was_kept());
  write_file(machine.root / "usr/share/vulkan/icd.d/some.json", R"({"ICD": {"library_path": "libvulkan_some.so"}})");
  EXPECT_FALSE(vulkan_was_kept());
  EXPECT_TRUE(vulkan_was_kept());
  folder.install("libvulkan_some.so", "good");  // which the manifest named before it was there
  EXPECT_FALSE(vulkan_was_kept());
  folder.install("libvulkan_some.so", "second");
  EXPECT_FALSE(vulkan_was_kept());
  EXPECT_TRUE(vulkan_was_kept());
}

TEST_F(CacheTest, AnotherKernelFamilyAsksAgain) {
  was_kept();
  Settings s = machine.settings();
  s.force_kernel.set({{"good", "plain"}}, "QUERN_FORCE_KERNEL");
  EXPECT_FALSE(entry_of(Loader(s).report(), "good").from_cache);
}

TEST_F(CacheTest, AnotherHelperAsksAgain) {
  const std::string helper = machine.root / "quern-probe";  // its package is upgraded after the plugin's
  const auto install = [&] {
    fs::copy_file(QUERN_PROBE_PROGRAM, helper + ".new");
    fs::rename(helper + ".new", helper);
  };
  Settings s = machine.settings();
  s.probe_program = helper;
  const auto kept = [&] { return entry_of(Loader(s).report(), "good").from_cache; };
  install();
  EXPECT_FALSE(kept());
  EXPECT_TRUE(kept());
  install();
  EXPECT_FALSE(kept());
  EXPECT_TRUE(kept());
}

TEST_F(CacheTest, DamageIsReportedAndProbedAnew) {
  was_kept();
  const std::string whole = read_whole(file());
  const std::vector<std::string> damages = {"",
                                            "{",
                                            whole.substr(0, whole.size() / 2),
                                            "[1,2,3]",
                                            "{\"key\":1,\"result\":2}",
                                            std::string(3000, '['),
                                            std::string("\0\xff\xfe", 3)};
  for (const std::string& damage : damages) {
    write_file(file(), damage);
    const Report report = Loader(machine.settings()).report();
    EXPECT_EQ(entry_of(report, "good").status, Status::usable);
    EXPECT_FALSE(entry_of(report, "good").from_cache);
    if (damage.find("\"key\"") == std::string::npos || damage.size() > 100) {
      EXPECT_THAT(entry_with(report, "QUERN-L-0702").cause, HasSubstr("damaged"));
    }
    EXPECT_TRUE(was_kept()) << "it was written anew";
  }
}

TEST_F(CacheTest, AResultWithAWrongFieldIsDamage) {
  was_kept();
  std::string text = read_whole(file());
  const std::size_t at = text.rfind("\"class\": 4");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 10, "\"class\": 9");
  write_file(file(), text);
  const Report report = Loader(machine.settings()).report();
  EXPECT_THAT(entry_with(report, "QUERN-L-0702").cause, HasSubstr("field 'class' is 9"));
  EXPECT_EQ(entry_of(report, "good").status, Status::usable);
}

TEST_F(CacheTest, AChangedFieldIsSeenByTheChecksumAndReplaced) {
  was_kept();
  const std::string whole = read_whole(file());
  std::string text = whole;
  const std::size_t at = text.rfind("Zoo Zero");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 8, "Zoo Five");
  write_file(file(), text);
  const Report report = Loader(machine.settings()).report();
  EXPECT_THAT(entry_with(report, "QUERN-L-0702").cause,
              HasSubstr("its checksum is wrong; the plugin was probed anew and the result replaced"));
  EXPECT_EQ(entry_of(report, "good").devices.at(0).info.name, "Zoo Zero");
  EXPECT_TRUE(was_kept());
}

/// Each field of a device as another machine could have kept it, with a checksum that is right.
std::vector<std::function<void(DeviceInfo&)>> changes() {
  return {[](DeviceInfo& d) { d.caps ^= 1; },
          [](DeviceInfo& d) { d.caps = 0; },
          [](DeviceInfo& d) { d.name = "Another Processor"; },
          [](DeviceInfo& d) { d.device_class = QUERN_DEVICE_DISCRETE; },
          [](DeviceInfo& d) { d.vendor_id += 1; },
          [](DeviceInfo& d) { d.architecture += "x"; },
          [](DeviceInfo& d) { d.driver_have += "x"; },
          [](DeviceInfo& d) { d.driver_need += "x"; },
          [](DeviceInfo& d) { d.pci_address = "0000:7f:00.0"; },
          [](DeviceInfo& d) { d.uuid[3] ^= 1; },
          [](DeviceInfo& d) { d.memory_alignment *= 2; },
          [](DeviceInfo& d) { d.max_allocation += 1; },
          [](DeviceInfo& d) { d.heap_count += 1; },
          [](DeviceInfo& d) { d.numa_node = 3; }};
}

/// Keeps what `change` makes of the result that is kept now.
void forge(const Machine& machine, const std::string& plugin, const std::function<void(Examination&)>& change) {
  const ProbeCache cache(machine.root / "cache");
  const std::string slot = machine.plugin(plugin);
  std::string key, fault;
  key = *Json::parse(read_whole(cache.file(slot))).value().find("key")->text();
  Examination kept = cache.find(slot, key, ProbeCache::Doubtful::for_a_while, fault).value();
  change(kept);
  cache.keep(slot, key, kept, fault);
  ASSERT_EQ(fault, "");
}

TEST_F(CacheTest, AKeptDeviceThatDiffersInAnyFieldFromTheOpenedOneIsProbedAnewAtOnce) {
  was_kept();
  for (const auto& change : changes()) {
    forge(machine, "good", [&](Examination& kept) { change(kept.devices.at(0).info); });
    Loader loader(machine.settings());
    EXPECT_TRUE(entry_of(loader.report(), "good").from_cache);
    const std::shared_ptr<Device> device = loader.open_best();
    EXPECT_EQ(device->info().name, "Zoo Zero");
    EXPECT_EQ(loader.candidates().at(0).device, device->info());
    EXPECT_FALSE(entry_of(loader.report(), "good").from_cache);
    EXPECT_EQ(entry_with(loader.report(), "QUERN-L-0502").code, "");
    Loader next(machine.settings());
    EXPECT_TRUE(entry_of(next.report(), "good").from_cache) << "it was kept anew";
    EXPECT_EQ(next.candidates().at(0).device, device->info());
  }
}

TEST_F(CacheTest, AKeptDeviceThatIsNotThereIsProbedAnewAndTheNextIsOpened) {
  was_kept();
  forge(machine, "good", [](Examination& kept) {
    kept.devices.push_back(kept.devices.at(0));
    kept.devices.at(0).verdict.code = code::device_failed;  // so that the one that is not there is the best
  });
  Loader loader(machine.settings());
  EXPECT_THAT(labels(loader), testing::ElementsAre("good:1"));
  EXPECT_EQ(loader.open_best()->label(), "good:0");
  EXPECT_THAT(labels(loader), testing::ElementsAre("good:0"));
}

TEST_F(CacheTest, WhatIsBestIsDecidedAnewWhenAKeptClassWasWrong) {
  machine.add({"cuda"});
  Loader(machine.settings());
  forge(machine, "good", [](Examination& kept) {
    kept.devices.at(0).info.device_class = QUERN_DEVICE_DISCRETE;
    kept.devices.at(0).info.name = "A card that comes first";
  });
  Loader loader(machine.settings());
  const std::string first = labels(loader).at(0);
  const std::shared_ptr<Device> best = loader.open_best();
  EXPECT_EQ(best->label(), labels(loader).at(0));
  EXPECT_EQ(best->info(), loader.candidates().at(0).device);
}

TEST_F(CacheTest, AFolderOrAPipeInPlaceOfAKeptResultIsReportedByName) {
  for (const bool pipe : {false, true}) {
    was_kept();
    fs::remove_all(file());
    if (pipe) ASSERT_EQ(::mkfifo(file().c_str(), 0600), 0);
    else fs::create_directory(file());
    const Report report = Loader(machine.settings()).report();
    EXPECT_EQ(entry_of(report, "good").status, Status::usable);
    EXPECT_THAT(entry_with(report, "QUERN-L-0702").cause, HasSubstr(file() + (pipe ? ": is a pipe" : ": is a folder")));
    fs::remove_all(file());
  }
}

#if defined(__x86_64__)
TEST_F(CacheTest, TheKeyNamesTheProcessorSoThatAnotherOneAsksAgain) {
  was_kept();
  const std::string machine_says = read_whole("/proc/cpuinfo");
  const std::size_t at = machine_says.find("model name"), colon = machine_says.find(": ", at);
  ASSERT_NE(at, std::string::npos);
  std::string name = machine_says.substr(colon + 2, machine_says.find('\n', at) - colon - 2);
  name.resize(name.find_last_not_of(' ') + 1);
  EXPECT_THAT(read_whole(file()), HasSubstr(name));
}
#endif

TEST_F(CacheTest, AFileThatEveryoneMayWriteToIsNotBelieved) {
  was_kept();
  ASSERT_EQ(::chmod(file().c_str(), 0666), 0);
  const Report report = Loader(machine.settings()).report();
  EXPECT_THAT(entry_with(report, "QUERN-L-0702").cause, HasSubstr("another user may have written it"));
}

TEST_F(CacheTest, ADirectoryThatCannotBeMadeIsReportedAndNothingFails) {
  write_file(machine.root / "cache", "a file where the directory should be");
  const Report report = Loader(machine.settings()).report();
  EXPECT_NE(entry_with(report, "QUERN-L-0702").cause, "");
  EXPECT_EQ(entry_of(report, "good").status, Status::usable);
}

TEST_F(CacheTest, WithoutABootIdNothingIsKept) {
  fs::remove(machine.root / "proc/sys/kernel/random/boot_id");
  was_kept();
  EXPECT_FALSE(was_kept());
}

TEST_F(CacheTest, ACrashIsBelievedForAWhileOnly) {
  machine.add({"constructor_traps"});
  Loader first(machine.settings());
  EXPECT_TRUE(entry_of(Loader(machine.settings()).report(), "constructor_traps").from_cache);
  const std::string kept = ProbeCache(machine.root / "cache").file(machine.plugin("constructor_traps"));
  std::string text = read_whole(kept);
  const std::size_t at = text.find("\"time\":");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, std::string("\"time\":1").size(), "\"time\":0");  // long ago: 0xxxxxxxxx is no JSON number
  write_file(kept, text);
  EXPECT_FALSE(entry_of(Loader(machine.settings()).report(), "constructor_traps").from_cache);
  text = read_whole(kept);
  const std::size_t again = text.find("\"time\":");
  const std::size_t end = text.find_first_of(",}", again);
  text.replace(again, end - again, "\"time\":1000");
  write_file(kept, text);
  const Report report = Loader(machine.settings()).report();
  EXPECT_FALSE(entry_of(report, "constructor_traps").from_cache);
  EXPECT_EQ(entry_with(report, "QUERN-L-0702").code, "") << "old is not damaged";
}

TEST_F(CacheTest, ACrashOfBeforeDoesNotAnswerADemand) {
  machine.add({"constructor_traps"});
  EXPECT_FALSE(entry_of(Loader(machine.settings()).report(), "constructor_traps").from_cache);
  EXPECT_TRUE(entry_of(Loader(machine.settings()).report(), "constructor_traps").from_cache);
  Settings demand = machine.settings();
  demand.backends.set({"constructor_traps", "good"}, "QUERN_BACKEND");
  const Report report = Loader(demand).report();
  EXPECT_FALSE(entry_of(report, "constructor_traps").from_cache);
  EXPECT_TRUE(entry_of(report, "good").from_cache) << "nothing to doubt";
}

TEST_F(CacheTest, TwoLoadersAtOnceLeaveOneWholeFile) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([this] { Loader loader(machine.settings()); });
  for (std::thread& t : threads) t.join();
  EXPECT_TRUE(was_kept());
  for (const auto& e : fs::directory_iterator(machine.root / "cache/probe"))
    EXPECT_EQ(e.path().extension(), ".json") << "a temporary file was left";
}

}  // namespace
}  // namespace quern::loader
