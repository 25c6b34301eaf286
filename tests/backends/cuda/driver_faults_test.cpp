// What doctor says of the real plugin on machines whose driver has one fault each, word for word; and that a repair is seen at once.
//
// The driver is fake_driver/fake_cuda.cpp, found by LD_LIBRARY_PATH as a user's would be. Texts are in goldens/, with MACHINE for the
// staged machine's folder; QUERN_UPDATE_GOLDENS=1 writes them anew; read the difference.
#include "../../loader/fixture.hpp"

#include "quern/loader/machine.hpp"
#include "quern/quern_sanitizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <set>

namespace quern::loader {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct Fault {
  const char* name;
  const char* code;  // that the text has to have
};

void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

constexpr Fault faults[] = {
    {"good", "cuda:0: used"},
    {"no_device", "QUERN-L-0406"},
    {"driver_too_old", "QUERN-L-0406"},
    {"symbol_missing", "QUERN-L-0406"},
    {"architecture_too_old", "QUERN-L-0406"},
    {"architecture_not_built", "QUERN-L-0406"},
    {"out_of_memory", "QUERN-L-0406"},
    {"probe_crashes", "QUERN-L-0403"},
    {"start_crashes", "QUERN-L-0403"},
    {"probe_hangs", "QUERN-L-0404"},
    {"constructor_hangs", "QUERN-L-0404"},
    {"wrong_results", "QUERN-L-0406"},
    {"driver_mismatch", "QUERN-L-0406"},
    {"unknown_error", "QUERN-L-0406"},
    {"second_card_busy", "QUERN-L-0601"},
    {"empty_library", "QUERN-L-0716"},
    {"hidden", "QUERN-L-0722"},
};

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
  return text;
}

/// A machine with two cards, the real plugin, and libcuda.so.1 in a folder that the linker searches first.
struct CudaMachine : Machine {
  CudaMachine() {
    add({"cpu"});
    fs::copy_file(QUERN_CUDA_PLUGIN_FILE, plugin("cuda"));
    write_file(root / "etc/debian_version", "12\n");
    write_file(root / "proc/cpuinfo", "model name\t: A Processor of Tests\n");
    write_file(root / "proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n");
    for (const char* node : {"nvidiactl", "nvidia0", "nvidia1"}) write_file(root / (std::string("dev/") + node), "");
    fs::create_directories(root / "drivers/nvidia");
    for (const std::string address : {"0000:41:00.0", "0000:42:00.0"}) {
      add_card(address, "0x10de", "0x2331");
      fs::create_directory_symlink(root / "drivers/nvidia", root / ("sys/bus/pci/devices/" + address + "/driver"));
    }
    ::setenv("LD_LIBRARY_PATH", (root / "driver").c_str(), 1);
  }
  ~CudaMachine() {
    ::unsetenv("LD_LIBRARY_PATH");
    ::unsetenv("CUDA_VISIBLE_DEVICES");
  }

  void install_driver(const std::string& fault) {
    fs::create_directories(root / "driver");
    fs::remove(root / "driver/libcuda.so.1");
    if (fault == "empty_library") return write_file(root / "driver/libcuda.so.1", "");
    fs::copy_file(std::string(QUERN_FAKE_DRIVERS) + "/" + (fault == "hidden" ? "good" : fault) + "/libcuda.so.1",
                  root / "driver/libcuda.so.1");
  }

  Settings settings() {
    Settings s = Machine::settings();
    s.usr_root = root / "usr";
    s.disabled.set({}, "test");
    if (const char* hidden = std::getenv("CUDA_VISIBLE_DEVICES")) s.cuda_visible_devices.set(hidden, "CUDA_VISIBLE_DEVICES");
    return s;
  }
};

class DriverFaults : public testing::TestWithParam<Fault> {};

TEST_P(DriverFaults, AreSaidInTheseWords) {
#if QUERN_SANITIZER != 0
  GTEST_SKIP() << "a sanitizer changes how drivers crash";
#endif
  const Fault fault = GetParam();
  const std::string name = fault.name;
  CudaMachine m;
  m.install_driver(name);
  if (name == "architecture_not_built")  // an NVRTC that is installed here is not found
    for (const char* compiler : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"})
      write_file(m.root / (std::string("driver/") + compiler), "");
  if (name == "hidden") ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  Settings settings = m.settings();
  if (name.ends_with("_hangs")) settings.probe_limit = std::chrono::milliseconds(1500);
  Report report = Loader(settings).report();
  std::string text = replaced(to_words(report, examine_machine(settings, report)), m.root.path(), "MACHINE");
  text = replaced(text, "cuda " QUERN_CUDA_VERSION " ", "cuda VERSION ");
  const std::string path = std::string(QUERN_SOURCE_DIR) + "/tests/backends/cuda/goldens/" + name + ".txt";
  if (const char* update = std::getenv("QUERN_UPDATE_GOLDENS"); update != nullptr && *update == '1') write_file(path, text);
  EXPECT_EQ(text, read_whole(path));
  EXPECT_THAT(text, HasSubstr(fault.code));
}

INSTANTIATE_TEST_SUITE_P(All, DriverFaults, testing::ValuesIn(faults),
                         [](const testing::TestParamInfo<Fault>& fault) { return std::string(fault.param.name); });

TEST(DriverFaultGoldens, EachIsOfAFaultThatIsStillSeeded) {
  std::set<std::string> names, files;
  for (const Fault& fault : faults) names.insert(fault.name);
  for (const auto& entry : fs::directory_iterator(std::string(QUERN_SOURCE_DIR) + "/tests/backends/cuda/goldens"))
    files.insert(entry.path().stem().string());
  EXPECT_EQ(names, files);
}

#if QUERN_SANITIZER == 0

// How long a limit lasts is said by loader_test's Hang, whose clock is its own.
TEST(Driver, ThatHangsCostsItsLimitOnceAndNeverTheProgram) {
  CudaMachine m;
  m.install_driver("probe_hangs");
  Settings settings = m.settings();
  settings.probe_limit = std::chrono::milliseconds(1500);
  EXPECT_EQ(entry_of(Loader(settings).report(), "cuda").code, "QUERN-L-0404");
  EXPECT_TRUE(entry_of(Loader(settings).report(), "cuda").from_cache) << "the second time it is remembered";
  EXPECT_EQ(Loader(settings).open_best()->label(), "cpu:0");
}

TEST(Driver, IsProbedAnewAsSoonAsItsFileChanges) {
  CudaMachine m;
  m.install_driver("driver_too_old");
  EXPECT_THAT(entry_of(Loader(m.settings()).report(), "cuda").cause, HasSubstr("CUDA 11.8"));
  EXPECT_TRUE(entry_of(Loader(m.settings()).report(), "cuda").from_cache);
  m.install_driver("good");
  const Report repaired = Loader(m.settings()).report();
  EXPECT_FALSE(entry_of(repaired, "cuda").from_cache);
  EXPECT_EQ(entry_of(repaired, "cuda").status, Status::usable);
  EXPECT_EQ(labels(Loader(m.settings())), (std::vector<std::string>{"cuda:0", "cuda:1", "cpu:0"}));
  EXPECT_TRUE(entry_of(Loader(m.settings()).report(), "cuda").from_cache);
  fs::remove(m.root / "driver/libcuda.so.1");
  EXPECT_FALSE(entry_of(Loader(m.settings()).report(), "cuda").from_cache);
}

TEST(Driver, ThatFailsADemandNeverComputesElsewhere) {
  CudaMachine m;
  for (const char* fault : {"no_device", "driver_too_old", "out_of_memory", "probe_crashes", "wrong_results"}) {
    m.install_driver(fault);
    Settings settings = m.settings();
    settings.backends.set({"cuda"}, "QUERN_BACKEND");
    Loader loader(settings);
    EXPECT_TRUE(loader.candidates().empty()) << fault;
    EXPECT_ANY_THROW(loader.open_best()) << fault;
  }
}

#endif

}  // namespace
}  // namespace quern::loader
