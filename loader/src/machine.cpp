// The machine as files show it: cards, drivers, libraries, and what is wrong with them.
#include "quern/loader/machine.hpp"

#include "codes.hpp"
#include "command.hpp"
#include "device_nodes.hpp"
#include "graphics_cards.hpp"
#include "quern/base/files.hpp"
#include "quern/graph/error.hpp"
#include "shared_libraries.hpp"
#include "survey.hpp"
#include "vulkan_drivers.hpp"

#include <algorithm>
#include <sstream>

namespace quern::loader {
namespace {

constexpr std::uint32_t nvidia = 0x10de;

/// What backends open if it is there; one of each group is enough.
constexpr const char* libraries[] = {"libcuda.so.1",   "libcublasLt.so.13", "libcublasLt.so.12", "libnvrtc.so.13",
                                     "libnvrtc.so.12", "libnccl.so.2",      "libvulkan.so.1",    "libopenblas.so.0"};

/// "535.154.05" of /proc/driver/nvidia/version; empty where the driver is not in the kernel.
std::string nvidia_driver(const Settings& settings) {
  std::string line;
  (void)base::read_head(settings.proc_root + "/driver/nvidia/version", line, 4096);
  line.resize(std::min(line.find('\n'), line.size()));
  for (std::size_t at = line.find_first_of("0123456789"); at != std::string::npos; at = line.find_first_of("0123456789", at)) {
    const std::size_t end = std::min(line.find_first_not_of("0123456789.", at), line.size());
    const std::string word = line.substr(at, end - at);
    if (word.find('.') != std::string::npos && (at == 0 || line[at - 1] == ' ')) return word;
    at = end;
  }
  return {};
}

std::string processor_name(const Settings& settings) {
  std::string text;
  (void)base::read_head(settings.proc_root + "/cpuinfo", text, 4096);
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "processor";
}

bool is_of_card(const DeviceInfo& device, const GraphicsCard& card, std::size_t cards_of_vendor) {
  if (!device.pci_address.empty()) return device.pci_address == card.address;
  return device.vendor_id == card.vendor && cards_of_vendor == 1 && device.device_class <= QUERN_DEVICE_INTEGRATED;
}

/// What each backend says about the devices for which `is_it` answers yes.
template <typename IsIt>
std::vector<CardVerdict> verdicts(const Report& report, const IsIt& is_it) {
  std::vector<CardVerdict> all;
  for (const ReportEntry& e : report.entries)
    for (const DeviceReport& d : e.devices)
      if (is_it(d.info)) all.push_back({e.id, d.label, d.rank >= 0, d.code, d.reason});
  return all;
}

/// A backend that was refused as a whole has a word for every card that it could have driven.
void add_refusals(std::vector<CardVerdict>& to, const Report& report, const GraphicsCard& card) {
  for (const ReportEntry& e : report.entries) {
    if (e.id.empty() || e.id == "cpu" || !e.devices.empty() || (e.id == "cuda" && card.vendor != nvidia)) continue;
    if (e.status == Status::refused || e.status == Status::skipped) to.push_back({e.id, {}, false, e.code, e.cause});
  }
}

std::vector<PhysicalDevice> physical_devices(const Settings& settings, const Report& report, const std::vector<GraphicsCard>& cards) {
  std::vector<PhysicalDevice> devices;
  PhysicalDevice processor{processor_name(settings), {}, {}, {}};
  processor.verdicts = verdicts(report, [](const DeviceInfo& d) { return d.device_class == QUERN_DEVICE_CPU; });
  devices.push_back(std::move(processor));
  for (const GraphicsCard& card : cards) {
    if (card.only_displays()) continue;
    const auto of_vendor = std::ranges::count(cards, card.vendor, &GraphicsCard::vendor);
    PhysicalDevice device{card.name(), card.address, card.driver, {}};
    device.verdicts = verdicts(report, [&](const DeviceInfo& d) { return is_of_card(d, card, static_cast<std::size_t>(of_vendor)); });
    add_refusals(device.verdicts, report, card);
    devices.push_back(std::move(device));
  }
  return devices;
}

class Findings {
 public:
  explicit Findings(Report& report) : report_(report) {}
  ReportEntry& add(const char* code, const std::string& path, const std::string& cause, const std::string& remedy) {
    ReportEntry entry = system_note(Status::warning, code, cause, remedy);
    entry.path = path;
    report_.entries.push_back(std::move(entry));
    return report_.entries.back();
  }

 private:
  Report& report_;
};

void check_kernel_drivers(Findings& findings, const std::vector<GraphicsCard>& cards) {
  for (const GraphicsCard& card : cards) {
    if (card.only_displays()) continue;
    if (card.driver.empty())
      findings.add(code::driver_missing, card.address, concat("the ", card.words(), " has no driver in the kernel"),
                   card.vendor == nvidia ? "install nvidia-driver"
                                         : "load the kernel's driver for it (amdgpu, i915 or xe), or install its firmware");
    if (card.vendor == nvidia && card.driver == "nouveau")
      findings.add(code::driver_other, card.address,
                   concat("the ", card.words(), " is driven by nouveau, and CUDA needs NVIDIA's own driver"), "install nvidia-driver");
  }
}

/// libcuda.so.1 against the driver in the kernel.
void check_cuda(Findings& findings, const MachineFacts& facts, const std::optional<FoundLibrary>& cuda, bool has_card) {
  if (cuda && !cuda->verdict.ok()) {
    findings.add(code::library_broken, cuda->path,
                 concat(cuda->path, " stands for the driver's library and is none: ", cuda->verdict.cause),
                 "remove it, so that the driver's own libcuda.so.1 is found");
    return;
  }
  if (!cuda && (has_card || !facts.nvidia_driver.empty()))
    findings.add(code::library_missing, {},
                 concat(facts.nvidia_driver.empty() ? "there is an NVIDIA card"
                                                    : concat("the kernel has NVIDIA's driver ", facts.nvidia_driver),
                        ", and libcuda.so.1 is not installed here"),
                 "start the container with the driver (docker run --gpus all), or outside of one install nvidia-driver");
  if (cuda && !cuda->version.empty() && !facts.nvidia_driver.empty() && cuda->version != facts.nvidia_driver)
    findings.add(code::library_version, cuda->path,
                 concat(cuda->path, " is of driver ", cuda->version, ", and the kernel has ", facts.nvidia_driver),
                 "restart the machine (after an upgrade), or give the container the host's driver");
}

const char* vulkan_package(std::uint32_t vendor) { return vendor == nvidia ? "nvidia-vulkan-icd" : "mesa-vulkan-drivers"; }

/// Words by which a manifest's library shows its vendor.
bool is_driver_of(const VulkanDriver& driver, std::uint32_t vendor) {
  const auto has = [&](const char* word) { return driver.library.find(word) != std::string::npos; };
  switch (vendor) {
    case nvidia: return has("nvidia") || has("nouveau");
    case 0x1002: return has("radeon") || has("amdvlk");
    case 0x8086: return has("intel");
    default: return true;
  }
}

void check_vulkan(Findings& findings, const MachineFacts& facts, const std::vector<GraphicsCard>& cards,
                  const std::optional<FoundLibrary>& loader) {
  for (const VulkanDriver& driver : facts.vulkan_drivers)
    if (!driver.cause.empty()) findings.add(driver.code.c_str(), driver.manifest, driver.cause, driver.remedy);
  if (loader && !loader->verdict.ok())
    findings.add(code::library_broken, loader->path, loader->verdict.cause, "remove it, so that the system's own libvulkan.so.1 is found");
  if (!facts.vulkan_drivers.empty() && !loader)
    findings.add(code::vulkan_missing, {}, "there are Vulkan drivers, and libvulkan.so.1 is not installed", "install libvulkan1");
  for (const GraphicsCard& card : cards) {
    if (card.only_displays() || card.driver.empty()) continue;
    if (std::ranges::any_of(facts.vulkan_drivers, [&](const VulkanDriver& d) { return d.cause.empty() && is_driver_of(d, card.vendor); }))
      continue;
    findings.add(code::manifest_none, card.address, concat("no Vulkan driver is installed for the ", card.words()),
                 concat("install ", vulkan_package(card.vendor)));
  }
}

}  // namespace

MachineFacts examine_machine(const Settings& settings, Report& report) {
  MachineFacts facts;
  const std::vector<GraphicsCard> cards = list_graphics_cards(settings.sys_root);
  facts.devices = physical_devices(settings, report, cards);
  facts.nvidia_driver = nvidia_driver(settings);
  facts.vulkan_drivers = list_vulkan_drivers(settings);
  std::map<std::string, std::optional<FoundLibrary>> found;
  for (const char* soname : libraries) {
    const auto& library = found[soname] = find_library(soname, settings);
    facts.libraries.push_back({soname, library ? library->path : "", library ? library->version : "", library && library->verdict.ok()});
  }
  Findings findings(report);
  check_kernel_drivers(findings, cards);
  for (ReportEntry& entry : node_faults(settings, cards)) report.entries.push_back(std::move(entry));
  const bool has_nvidia = std::ranges::any_of(cards, [](const GraphicsCard& c) { return c.vendor == nvidia && c.driver == "nvidia"; });
  check_cuda(findings, facts, found["libcuda.so.1"], has_nvidia);
  check_vulkan(findings, facts, cards, found["libvulkan.so.1"]);
  if (settings.cuda_visible_devices.is_set() && settings.cuda_visible_devices.value.empty() &&
      std::ranges::any_of(cards, [](const GraphicsCard& c) { return c.vendor == nvidia; }))
    findings.add(code::visible_none, {}, concat(settings.cuda_visible_devices.source, " is set and empty, which hides every NVIDIA card"),
                 concat("unset ", settings.cuda_visible_devices.source));
  add_commands(report, settings.etc_root);
  return facts;
}

}  // namespace quern::loader
