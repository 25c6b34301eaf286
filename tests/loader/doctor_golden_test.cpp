// What `quern doctor` prints on machines with one fault each, word for word.
//
// The texts are in goldens/, with MACHINE for the staged machine's folder. QUERN_UPDATE_GOLDENS=1 writes them anew; read the difference.
#include "fixture.hpp"

#include "quern/loader/machine.hpp"
#include "quern/quern_sanitizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <regex>
#include <set>

namespace quern::loader {
namespace {

namespace fs = std::filesystem;

constexpr const char* card = "0000:41:00.0";
constexpr const char* cards_of_vendor[][2] = {{"0x10de", "0x2331"}, {"0x1002", "0x744c"}, {"0x8086", "0x56a0"}};

struct Fault {
  const char* name;
  const char* code;  // that the text has to have
  std::function<void(Machine&, Settings&)> seed;
};

void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

/// A plugin of the zoo beside the good CPU.
Fault animal(const char* name, const char* code) {
  return {name, code, [name](Machine& m, Settings&) { m.add({name}); }};
}

/// Of a node, where the test runs as root; otherwise it is the tester's own. Texts name it GROUP.
constexpr gid_t some_group = 4711;

std::string group_of_nodes() {
  const gid_t group = ::getegid() == 0 ? some_group : ::getegid();
  const ::group* entry = ::getgrgid(group);
  return entry == nullptr ? std::to_string(group) : std::string(entry->gr_name);
}

enum Vendor { nvidia, amd, intel };

void add_card(Machine& m, Vendor vendor, const std::string& driver) {
  m.add_card(card, cards_of_vendor[vendor][0], cards_of_vendor[vendor][1]);
  if (driver.empty()) return;
  fs::create_directories(m.root / ("drivers/" + driver));
  fs::create_directory_symlink(m.root / ("drivers/" + driver), m.root / (std::string("sys/bus/pci/devices/") + card + "/driver"));
}

/// A library of this machine's own kind, under the name that the driver's has.
void add_library(Machine& m, const std::string& path) {
  const std::string target = m.root / path;
  fs::create_directories(fs::path(target).parent_path());
  fs::copy_file(std::string(QUERN_ZOO) + "/libbackend_good.so", target, fs::copy_options::overwrite_existing);
}

/// NVIDIA's card as it should be: driver in the kernel, nodes, library, Vulkan.
void add_nvidia(Machine& m, const std::string& kernel = "580.65.06", const std::string& library = "580.65.06") {
  add_card(m, nvidia, "nvidia");
  write_file(m.root / "proc/driver/nvidia/version",
             "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  " + kernel + "  Release Build\n");
  for (const char* node : {"nvidiactl", "nvidia0"}) write_file(m.root / (std::string("dev/") + node), "");
  if (library.empty()) return;
  add_library(m, "usr/lib/libcuda.so." + library);
  fs::create_symlink("libcuda.so." + library, m.root / "usr/lib/libcuda.so.1");
}

void add_vulkan(Machine& m, const std::string& name, const std::string& library) {
  write_file(m.root / ("usr/share/vulkan/icd.d/" + name),
             R"({"file_format_version": "1.0.1", "ICD": {"library_path": ")" + library + R"(", "api_version": "1.4.303"}})");
}

void add_whole_vulkan(Machine& m, const std::string& library) {
  add_library(m, "usr/lib/libvulkan.so.1");
  add_library(m, "usr/lib/" + library);
  add_vulkan(m, library.substr(3, library.find('.') - 3) + "_icd.json", library);
}

void change_bytes(const std::string& path, std::size_t at, const std::string& bytes) {
  std::string whole = read_whole(path);
  whole.replace(at, bytes.size(), bytes);
  write_file(path, whole);
}

const std::vector<Fault>& faults() {
  static const std::vector<Fault> all = {
      {"nothing_wrong", "QUERN-L-0000", [](Machine&, Settings&) {}},
      // Files.
      animal("no_note", "QUERN-L-0107"),
      animal("wrong_epoch", "QUERN-L-0109"),
      animal("needs_newer_host", "QUERN-L-0111"),
      {"too_old", "QUERN-L-0110",
       [](Machine& m, Settings& s) {
         m.add({"newer_minor", "second"});
         fs::remove(m.plugin("cpu"));  // it is of the same minor as the old one
         s.least_abi_minor = 5;
       }},
      animal("other_hash", "QUERN-L-0112"),
      animal("strange_cpu", "QUERN-L-0113"),
      {"not_a_library", "QUERN-L-0102", [](Machine& m, Settings&) { write_file(m.plugin("cuda"), "<html>not found</html>\n"); }},
      {"cut_off", "QUERN-L-0103",
       [](Machine& m, Settings&) {
         m.add({"good"});
         fs::resize_file(m.plugin("good"), fs::file_size(m.plugin("good")) / 2);
       }},
      {"of_32_bits", "QUERN-L-0104",
       [](Machine& m, Settings&) {
         m.add({"good"});
         change_bytes(m.plugin("good"), 4, std::string(1, '\1'));
       }},
      {"of_another_machine", "QUERN-L-0105",
       [](Machine& m, Settings&) {
         m.add({"good"});
         change_bytes(m.plugin("good"), 18, std::string("\xf3\0", 2));  // RISC-V
       }},
      {"dangling_link", "QUERN-L-0101", [](Machine& m, Settings&) { fs::create_symlink("/nowhere/libbackend_cuda.so", m.plugin("cuda")); }},
      // Loading, negotiating, probing.
      animal("missing_library", "QUERN-L-0201"),
      animal("undefined_symbol", "QUERN-L-0202"),
      animal("constructor_traps", "QUERN-L-0207"),
      animal("constructor_exits", "QUERN-L-0207"),
      animal("constructor_hangs", "QUERN-L-0208"),
      animal("no_entry", "QUERN-L-0301"),
      animal("entry_refuses", "QUERN-L-0302"),
      animal("entry_throws", "QUERN-L-0303"),
      animal("small_table", "QUERN-L-0304"),
      animal("null_function", "QUERN-L-0305"),
      animal("other_id", "QUERN-L-0306"),
      animal("create_fails", "QUERN-L-0401"),
      animal("probe_fails", "QUERN-L-0402"),  // a driver that is too old
      animal("probe_crashes", "QUERN-L-0403"),
      animal("probe_hangs", "QUERN-L-0404"),
      animal("probe_throws", "QUERN-L-0405"),
      animal("probe_misses_library", "QUERN-L-0406"),
      animal("probe_lies", "QUERN-L-0407"),
      animal("probe_limited", "QUERN-L-0000"),
      animal("probe_names_device", "QUERN-L-0601"),  // one of three fails its self-test
      {"no_helper", "QUERN-L-0209",
       [](Machine& m, Settings& s) {
         m.add({"probe_fails", "cuda"});
         s.probe_program = m.root / "no/quern-probe";
       }},
      {"in_this_process", "QUERN-L-0000", [](Machine&, Settings& s) { s.probe_in_process.set(true, "QUERN_PROBE_IN_PROCESS"); }},
      // What the user asked for.
      {"disabled", "QUERN-L-0009",
       [](Machine& m, Settings& s) {
         m.add({"second"});
         s.disabled.set({"second"}, "QUERN_BACKEND_DISABLE");
       }},
      {"not_demanded", "QUERN-L-0010",
       [](Machine& m, Settings& s) {
         m.add({"second"});
         s.backends.set({"cpu"}, "QUERN_BACKEND");
       }},
      {"demand_unmet", "QUERN-L-0703", [](Machine&, Settings& s) { s.backends.set({"cuda"}, "QUERN_BACKEND"); }},
      {"forced_cpu", "QUERN-L-0011",
       [](Machine& m, Settings& s) {
         m.add({"second"});
         s.force_cpu.set(true, "CUDA_FORCE_CPU");
       }},
      {"software_rasteriser", "QUERN-L-0605", [](Machine& m, Settings&) { m.add({"raster"}); }},
      {"shadowed", "QUERN-L-0007",
       [](Machine& m, Settings& s) {
         m.add({"cpu"}, "more");
         s.extra_path.set({m.root / "more"}, "QUERN_BACKEND_EXTRA_PATH");
       }},
      // Folders and the cache.
      {"world_writable_directory", "QUERN-L-0002",
       [](Machine& m, Settings&) {
         m.add({"second"}, "open");
         fs::create_symlink(m.root / "open/libbackend_second.so", m.plugin("second"));
         ::chmod((m.root / "open").c_str(), 0777);
       }},
      {"world_writable_file", "QUERN-L-0012",
       [](Machine& m, Settings&) {
         m.add({"second"});
         ::chmod(m.plugin("second").c_str(), 0666);
       }},
      {"relative_directory", "QUERN-L-0003", [](Machine&, Settings& s) { s.extra_path.set({"plugins"}, "QUERN_BACKEND_EXTRA_PATH"); }},
      {"missing_directory", "QUERN-L-0001",
       [](Machine& m, Settings& s) { s.extra_path.set({m.root / "gone"}, "QUERN_BACKEND_EXTRA_PATH"); }},
      {"no_plugin", "QUERN-L-0006", [](Machine& m, Settings&) { fs::remove(m.plugin("cpu")); }},
      {"unwritable_cache", "QUERN-L-0702", [](Machine& m, Settings&) { write_file(m.root / "cache", "a file\n"); }},
      // Cards and their drivers.
      {"card_without_backend", "QUERN-L-0701",
       [](Machine& m, Settings&) {
         add_nvidia(m);
         add_whole_vulkan(m, "libGLX_nvidia.so.0");
       }},
      {"card_without_kernel_driver", "QUERN-L-0713", [](Machine& m, Settings&) { add_card(m, amd, ""); }},
      {"nouveau", "QUERN-L-0714",
       [](Machine& m, Settings&) {
         add_card(m, nvidia, "nouveau");
         write_file(m.root / "dev/dri/renderD128", "");
       }},
      {"no_device_node", "QUERN-L-0711",
       [](Machine& m, Settings&) {
         add_nvidia(m);
         fs::remove(m.root / "dev/nvidiactl");
         fs::remove(m.root / "dev/nvidia0");
       }},
      {"no_render_node", "QUERN-L-0711",
       [](Machine& m, Settings&) {
         add_card(m, amd, "amdgpu");
         add_whole_vulkan(m, "libvulkan_radeon.so");
       }},
      {"wrong_group", "QUERN-L-0712",
       [](Machine& m, Settings& s) {
         add_card(m, intel, "i915");
         add_whole_vulkan(m, "libvulkan_intel.so");
         write_file(m.root / "dev/dri/renderD128", "");
         ::chmod((m.root / "dev/dri/renderD128").c_str(), 0660);
         ASSERT_TRUE(::getegid() != 0 || ::chown((m.root / "dev/dri/renderD128").c_str(), 0, some_group) == 0);
         s.identity = Identity{4242, {4242}};
       }},
      {"container_without_driver", "QUERN-L-0715", [](Machine& m, Settings&) { add_nvidia(m, "580.65.06", ""); }},
      {"empty_libcuda", "QUERN-L-0716",
       [](Machine& m, Settings&) {
         add_nvidia(m);
         fs::remove(m.root / "usr/lib/libcuda.so.1");
         write_file(m.root / "usr/lib/libcuda.so.1", "");
       }},
      {"driver_and_library_differ", "QUERN-L-0717", [](Machine& m, Settings&) { add_nvidia(m, "535.154.05", "580.65.06"); }},
      {"broken_manifest", "QUERN-L-0718",
       [](Machine& m, Settings&) {
         add_library(m, "usr/lib/libvulkan.so.1");
         write_file(m.root / "usr/share/vulkan/icd.d/broken.json", "{\"ICD\": ");
         write_file(m.root / "etc/vulkan/icd.d/empty.json", "{}");
       }},
      {"manifest_without_library", "QUERN-L-0719",
       [](Machine& m, Settings&) {
         add_library(m, "usr/lib/libvulkan.so.1");
         add_vulkan(m, "radeon_icd.json", "/usr/lib/none/libvulkan_radeon.so");
       }},
      {"no_vulkan_driver", "QUERN-L-0720",
       [](Machine& m, Settings&) {
         add_card(m, amd, "amdgpu");
         write_file(m.root / "dev/dri/renderD128", "");
         add_library(m, "usr/lib/libvulkan.so.1");
       }},
      {"no_libvulkan", "QUERN-L-0721",
       [](Machine& m, Settings&) {
         add_whole_vulkan(m, "libvulkan_lvp.so");
         fs::remove(m.root / "usr/lib/libvulkan.so.1");
       }},
      {"empty_visible_devices", "QUERN-L-0722",
       [](Machine& m, Settings& s) {
         add_nvidia(m);
         add_whole_vulkan(m, "libGLX_nvidia.so.0");
         m.add({"vulkan"});
         s.cuda_visible_devices.set("", "CUDA_VISIBLE_DEVICES");
       }},
      {"one_card_two_backends", "QUERN-L-0604",
       [](Machine& m, Settings&) {
         m.add({"cuda", "vulkan"});
         for (const char* address : {"0000:01:00.0", "0000:01:01.0"}) m.add_card(address, "0x10de", "0x2331");
       }},
  };
  return all;
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
  return text;
}

/// What doctor prints; paths of this run are named, so that two runs give one text.
std::string doctor(const Fault& fault) {
  Machine m;
  m.add({"cpu"});
  write_file(m.root / "etc/debian_version", "12\n");
  write_file(m.root / "proc/cpuinfo", "model name\t: A Processor of Tests\n");
  Settings settings = m.settings();
  settings.usr_root = m.root / "usr";
  if (std::string(fault.name).ends_with("_hangs")) settings.probe_limit = std::chrono::milliseconds(1500);
  fault.seed(m, settings);
  Report report = Loader(settings).report();
  const MachineFacts machine = examine_machine(settings, report);
  std::string text = replaced(to_words(report, machine), m.root.path(), "MACHINE");
  // Sizes of the zoo's files are the compiler's and its options'.
  text = std::regex_replace(text, std::regex("takes [0-9]+ bytes at byte [0-9]+ but the file has [0-9]+ bytes"),
                            "takes SIZE bytes at byte PLACE but the file has SIZE bytes");
  // A release's runtime was built from released headers, any other from those of its day.
  text =
      std::regex_replace(text, std::regex("this runtime (has hash [0-9a-f]{16}|was built from released headers)"), "this runtime HEADERS");
  text = replaced(text, "the group " + group_of_nodes(), "the group GROUP");
  return replaced(text, "usermod -aG " + group_of_nodes() + " ", "usermod -aG GROUP ");
}

/// A sentence that stands twice in the page, "" if there is none: what follows a ": " or a ". ", without names of devices, files and codes.
std::string said_twice(const std::string& page) {
  std::set<std::string> seen;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("Type: ") != std::string::npos || line.find("Zoo ") != std::string::npos) continue;  // commands and devices
    line = std::regex_replace(line, std::regex(" \\(QUERN-L-[^)]*\\)\\.?"), "");
    for (std::size_t from = 0; from < line.size();) {
      const std::size_t to = std::min(line.find(": ", from), line.size());
      std::string part = line.substr(from, to - from);
      while (!part.empty() && (part.back() == '.' || part.back() == ' ')) part.pop_back();
      part.erase(0, part.find_first_not_of(' ') == std::string::npos ? 0 : part.find_first_not_of(' '));
      if (std::ranges::count(part, ' ') >= 3 && part != "the same as above" && !seen.insert(part).second) return part;
      from = to + 2;
    }
  }
  return "";
}

TEST(DoctorGoldens, ASentenceThatStandsTwiceIsFound) {
  EXPECT_EQ(said_twice("a: no installed backend drives it\nb: no installed backend drives it (QUERN-L-0701).\n"),
            "no installed backend drives it");
  EXPECT_EQ(said_twice("a: no backend drives it\nb: it is hidden from us\n"), "");
}

class DoctorGolden : public testing::TestWithParam<Fault> {};

TEST_P(DoctorGolden, SaysItInTheseWords) {
#if QUERN_SANITIZER != 0
  GTEST_SKIP() << "a sanitizer changes how plugins crash";
#endif
  const Fault& fault = GetParam();
  const std::string text = doctor(fault);
  const std::string path = std::string(QUERN_SOURCE_DIR) + "/tests/loader/goldens/" + fault.name + ".txt";
  if (const char* update = std::getenv("QUERN_UPDATE_GOLDENS"); update != nullptr && *update == '1') write_file(path, text);
  EXPECT_EQ(text, read_whole(path));
  EXPECT_TRUE(text.starts_with("[ok] Quern works here") || text.starts_with("[no] Quern runs no model here: ")) << text;
  EXPECT_EQ(said_twice(text), "");
  if (fault.code != std::string("QUERN-L-0000")) { EXPECT_THAT(text, testing::HasSubstr(fault.code)); }
}

INSTANTIATE_TEST_SUITE_P(All, DoctorGolden, testing::ValuesIn(faults()),
                         [](const testing::TestParamInfo<Fault>& fault) { return std::string(fault.param.name); });

// Thirty was the aim; nothing may be lost of what there is.
TEST(DoctorGoldens, AreOfAtLeastThirtyFaultsAndFiftyCodes) {
  std::set<std::string> names, codes;
  for (const Fault& fault : faults()) {
    names.insert(fault.name);
    codes.insert(fault.code);
  }
  EXPECT_EQ(names.size(), faults().size());
  EXPECT_GE(names.size(), 30u);
  EXPECT_GE(codes.size(), 50u);
}

TEST(DoctorGoldens, EachIsOfAFaultThatIsStillSeeded) {
  std::set<std::string> names, files;
  for (const Fault& fault : faults()) names.insert(fault.name);
  for (const auto& entry : fs::directory_iterator(std::string(QUERN_SOURCE_DIR) + "/tests/loader/goldens"))
    files.insert(entry.path().stem().string());
  EXPECT_EQ(names, files);
}

}  // namespace
}  // namespace quern::loader
