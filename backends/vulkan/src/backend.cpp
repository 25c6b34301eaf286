// See backend.hpp.
#include "backend.hpp"

#include "matrix_layout.hpp"

#include <algorithm>
#include <cstring>

namespace quern::vulkan {
namespace {

constexpr const char* loader_library = "libvulkan.so.1";

constexpr Tier tiers[] = {Tier::baseline, Tier::dot, Tier::matrices};
constexpr const char* name_of(Tier tier) { return tier == Tier::baseline ? "baseline" : tier == Tier::dot ? "dot" : "matrices"; }

/// The part behind "vulkan:" of a forced kernel; one for another backend counts as unset.
std::optional<ForcedKernels> forced_kernels(std::string_view value) {
  const std::size_t colon = value.find(':');
  if (value.empty() || (colon != std::string_view::npos && value.substr(0, colon) != "vulkan")) return std::nullopt;
  if (colon != std::string_view::npos) value.remove_prefix(colon + 1);
  if (value == "vulkan") return std::nullopt;
  for (const Tier tier : tiers)
    if (value == name_of(tier)) return ForcedKernels{tier, false};
  if (value == "persistent") return ForcedKernels{Tier::dot, true};
  refuse(concat(
      "force_kernel is '", std::string(value),
      "'; this plugin has baseline (no kernels beyond Vulkan 1.2's), dot (integer dot products), matrices (cooperative matrices) and persistent (as without "
      "it, and steps of one row in dispatches that wait for each other)"));
}

/// What the option `memory` asks for. One without a backend's name goes to all of them, so CUDA's value counts as unset.
bool staged_memory(std::string_view value) {
  if (value != "" && value != "staged" && value != "plain")
    refuse(concat("memory is '", std::string(value),
                  "'; this plugin has staged (copies go through staging memory on any device), and cuda has plain"));
  return value == "staged";
}

std::uint32_t class_of(const CardFacts& card) {
  switch (card.type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return QUERN_DEVICE_DISCRETE;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return QUERN_DEVICE_INTEGRATED;
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return QUERN_DEVICE_SOFTWARE;
    default: return QUERN_DEVICE_OTHER;
  }
}

}  // namespace

Backend::Backend(const quern_host& host)
    : host_(host),
      forced_(forced_kernels(sdk::host_option(host, "force_kernel"))),
      staged_(staged_memory(sdk::host_option(host, "memory"))) {}

std::uint32_t Backend::device_count() {
  const std::lock_guard lock(opening_);
  if (!api_) {
    auto opened = Api::open(loader_library);
    cards_ = list_cards(*opened);
    api_ = std::move(opened);
  }
  return static_cast<std::uint32_t>(cards_.size());
}

const CardFacts& Backend::card(std::uint32_t index) {
  if (index >= device_count()) throw Failure(QUERN_NOT_FOUND, concat("device ", index, " was asked, there are ", cards_.size()));
  return cards_[index];
}

quern_device_info Backend::device_info(std::uint32_t index, sdk::Texts& texts) {
  const CardFacts& c = card(index);
  quern_device_info info = sdk::made<quern_device_info>();
  info.device_class = class_of(c);
  info.caps = QUERN_CAP_PROBE_NEEDS_CHILD;
  info.vendor_id = c.vendor;
  info.name = texts.keep(c.name);
  info.architecture = texts.keep(c.architecture);
  info.driver_have =
      texts.keep(concat(c.driver_name, ", Vulkan ", VK_API_VERSION_MAJOR(c.api_version), ".", VK_API_VERSION_MINOR(c.api_version)));
  info.driver_need = texts.keep("Vulkan 1.2");
  info.pci_address = texts.keep(c.pci_address);
  std::memcpy(info.uuid, c.uuid, sizeof info.uuid);
  info.max_allocation = c.max_allocation;
  info.heap_count = 1;
  info.numa_node = QUERN_NONE;
  return info;
}

std::unique_ptr<OpenDevice> Backend::open(std::uint32_t index) {
  const CardFacts& c = card(index);
  if (!c.refusal.empty()) throw Failure(c.refusal_code, concat(c.name, ": ", c.refusal));
  if (const Tier most = std::min(c.tier(), built_tier()); forced_ && most < forced_->tier)
    throw Failure(QUERN_UNSUPPORTED, concat(c.name, ": force_kernel is '", name_of(forced_->tier), "', ",
                                            c.tier() < forced_->tier ? "the device" : "this build", " has '", name_of(most), "' at most"));
  if (forced_ && forced_->persistent && c.persistent_groups == 0)
    throw Failure(
        QUERN_UNSUPPORTED,
        concat(c.name, ": force_kernel is 'persistent', but workgroups that wait for each other are not known to be at work at once here"));
  GpuOptions options;
  options.cache_directory = std::string(sdk::view(host_.cache_directory));
  options.threads = host_.thread_count;
  options.staged = staged_;
  const auto logs = [this](std::uint32_t level) {
    return [this, level](const std::string& text) { host_.log(host_.context, level, sdk::text_of("vulkan"), sdk::text_of(text)); };
  };
  options.log = logs(QUERN_LOG_DEBUG);
  options.warn = logs(QUERN_LOG_WARN);
  if (forced_) {
    options.persistent = forced_->persistent;
    options.forced = !forced_->persistent;
    if (options.forced) options.most = forced_->tier;
  }
  auto device = std::make_unique<OpenDevice>(api_, c, options);
  if (device->tier() >= Tier::matrices) device->learn(find_matrix_layout(*device, device->places));
  return device;
}

void Backend::prove(std::uint32_t index) {
  const std::unique_ptr<OpenDevice> device = open(index);
  const std::string fault = self_test(*device);
  if (!fault.empty()) throw Failure(QUERN_INTERNAL, concat(device->facts().name, ": ", fault));
}

void Backend::explain(const Failure& failure, quern_reason& reason, sdk::Texts& texts) const {
  const char* remedy = "";
  switch (failure.code) {
    case QUERN_DRIVER_MISSING:
      if (failure.text.find(loader_library) != std::string::npos) {
        reason.missing = sdk::text_of(loader_library);
        remedy = "install the Vulkan loader (Debian: libvulkan1) and a driver, or run on another backend";
      } else {
        remedy =
            "install a Vulkan driver (Debian: mesa-vulkan-drivers for AMD, Intel and software, nvidia-driver for NVIDIA) and check the manifests in "
            "/usr/share/vulkan/icd.d and /etc/vulkan/icd.d: VK_LOADER_DEBUG=all quern devices";
      }
      break;
    case QUERN_DRIVER_TOO_OLD: remedy = "install a driver with Vulkan 1.2 or newer"; break;
    case QUERN_NOT_FOUND: remedy = "check that the device is visible: vulkaninfo --summary"; break;
    case QUERN_UNSUPPORTED: remedy = "install a newer driver, or run on another backend"; break;
    default: break;
  }
  reason.remedy = texts.keep(remedy);
}

}  // namespace quern::vulkan
