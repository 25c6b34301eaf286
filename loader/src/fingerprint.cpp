// What a probe's result depends on. A thing that is missing here makes a user's repair go unnoticed until the
// next boot, so it holds more than a key strictly needs; all of it takes well under a millisecond to read.
#include "fingerprint.hpp"

#include "fault_notes.hpp"
#include "graphics_cards.hpp"
#include "quern/base/files.hpp"
#include "quern/graph/error.hpp"
#include "quern/graph/json_writer.hpp"
#include "shared_libraries.hpp"
#include "vulkan_drivers.hpp"
#include "quern/graph/folder.hpp"

#include <sys/stat.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <string>

namespace quern::loader {
namespace {

/// Bumped when the meaning of a cached result changes.
constexpr int version = 3;

constexpr const char* variables[] = {"CUDA_VISIBLE_DEVICES",
                                     "CUDA_DEVICE_ORDER",
                                     "CUDA_MPS_PIPE_DIRECTORY",
                                     "NVIDIA_VISIBLE_DEVICES",
                                     "HIP_VISIBLE_DEVICES",
                                     "ROCR_VISIBLE_DEVICES",
                                     "ZE_AFFINITY_MASK",
                                     "ONEAPI_DEVICE_SELECTOR",
                                     "VK_DRIVER_FILES",
                                     "VK_ICD_FILENAMES",
                                     "VK_ADD_DRIVER_FILES",
                                     "VK_LOADER_DRIVERS_SELECT",
                                     "VK_LOADER_DRIVERS_DISABLE",
                                     "VK_INSTANCE_LAYERS",
                                     "VK_LOADER_LAYERS_ENABLE",
                                     "VK_LOADER_LAYERS_DISABLE",
                                     "MESA_VK_DEVICE_SELECT",
                                     "DRI_PRIME",
                                     "LD_LIBRARY_PATH",
                                     "LD_PRELOAD",
                                     "XDG_DATA_DIRS",
                                     "XDG_CONFIG_DIRS"};

/// The first 512 bytes of a file; empty if it cannot be read.
std::string head(const std::string& path) {
  std::string text;
  (void)base::read_head(path, text, 512);
  return text;
}

/// Which processor this is: a virtual machine that moves to another host keeps its boot id. By instruction where there is one: opening
/// /proc/cpuinfo takes 10 ms on some kernels, which measure all frequencies first.
std::string processor([[maybe_unused]] const std::string& proc_root) {
#if defined(__x86_64__)
  std::string text;
  for (const unsigned leaf : {0u, 1u, 0x80000002u, 0x80000003u, 0x80000004u}) {
    unsigned words[4] = {};
    __get_cpuid(leaf, &words[0], &words[1], &words[2], &words[3]);
    if (leaf == 1) {  // family, model and stepping; the rest of it is of the processor that this thread is on
      text += concat(" ", words[0], " ");
    } else {
      for (const unsigned word : words)
        for (int shift = 0; shift < 32; shift += 8)
          if (const char c = static_cast<char>(word >> shift & 0xff); c >= ' ' && c <= '~') text += c;
    }
  }
  return text;
#else
  std::string text;
  (void)base::read_head(proc_root + "/cpuinfo", text, 4096);
  std::erase_if(text, [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
  return text.substr(0, text.find("\n\n"));
#endif
}

/// The files that the plugin would open: where the linker finds each library that its note names, and for the Vulkan loader the drivers
/// that manifests announce. So a driver that was changed in place is probed anew.
std::vector<std::string> opened_files(const Inspection& found, const Settings& settings) {
  std::vector<std::string> rows;
  for (const Dependency& dependency : found.dependencies) {
    const std::optional<FoundLibrary> library = find_library(dependency.soname, settings);
    rows.push_back(library ? concat(library->path, " ", file_identity(library->path)) : dependency.soname + " -");
    if (dependency.soname != "libvulkan.so.1") continue;
    for (const VulkanDriver& driver : list_vulkan_drivers(settings))
      rows.push_back(concat(driver.manifest, " ", file_identity(driver.manifest), " ", driver.library_path, " ",
                            file_identity(driver.library_path)));
  }
  return rows;
}

/// Names and permissions of the device nodes in a directory that start with `prefix`.
std::vector<std::string> device_node_names(const std::string& directory, const std::string& prefix) {
  std::vector<std::string> rows;
  for (const std::string& name : names_in(directory)) {
    struct stat s {};
    if (name.starts_with(prefix) && ::stat((directory + "/" + name).c_str(), &s) == 0)
      rows.push_back(concat(name, ":", s.st_mode, ":", s.st_uid, ":", s.st_gid));
  }
  return rows;
}

void write_user(JsonWriter& json) {
  std::vector<gid_t> groups(static_cast<std::size_t>(std::max(0, ::getgroups(0, nullptr))));
  const int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(static_cast<std::size_t>(std::max(0, count)));
  std::ranges::sort(groups);
  json.begin_object();
  json.member("uid", ::geteuid());
  json.member("gid", ::getegid());
  json.member("groups", groups);
  json.end_object();
}

}  // namespace

std::string fingerprint(const HelperRequest& request, const std::string& helper, const Inspection& found, const HostFacts& facts,
                        const Settings& settings) {
  const std::string boot = head(settings.proc_root + "/sys/kernel/random/boot_id");
  if (boot.empty()) return {};
  std::vector<std::string> drivers{head(settings.proc_root + "/driver/nvidia/version")};
  for (const char* module : {"amdgpu", "i915", "xe", "nouveau"})
    drivers.push_back(head(concat(settings.sys_root, "/module/", module, "/srcversion")));
  std::vector<std::string> cards;
  for (const GraphicsCard& card : list_graphics_cards(settings.sys_root)) cards.push_back(card.words() + " " + card.driver);
  const std::string libraries[] = {file_identity(settings.etc_root + "/ld.so.cache"), file_identity(settings.etc_root + "/vulkan/icd.d"),
                                   file_identity("/usr/share/vulkan/icd.d"), file_identity("/usr/local/share/vulkan/icd.d")};
  const std::uint64_t host[] = {facts.abi_minor, facts.header_hash, facts.cpu_features, facts.sanitizer};
  JsonWriter json(JsonWriter::Style::one_line);
  json.begin_object();
  json.member("version", version);
  json.member("plugin", file_identity(request.path));
  json.member("helper", file_identity(helper));  // which judges by the headers that it was built from
  json.member("build", found.build_id);
  json.member("host", host);
  json.member("request", write_request(request));
  json.member("drivers", drivers);
  json.member("boot", boot);
  json.member("processor", processor(settings.proc_root));
  json.key("variables");
  json.begin_object();
  for (const char* name : variables)
    if (const char* value = std::getenv(name)) json.member(name, value);
  json.end_object();
  json.key("nodes");
  json.begin_array();
  json.value(device_node_names(settings.dev_root, "nvidia"));
  json.value(device_node_names(settings.dev_root + "/dri", ""));
  json.value(device_node_names(settings.dev_root, "kfd"));
  json.end_array();
  json.member("cards", cards);
  json.member("libraries", libraries);
  json.member("opened", opened_files(found, settings));
  json.key("user");
  write_user(json);
  json.end_object();
  return json.take();
}

}  // namespace quern::loader
