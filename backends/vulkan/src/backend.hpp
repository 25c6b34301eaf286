// The plugin's state and what the opaque handles of the ABI are. All of it hangs on the handles, none on the library.
#pragma once

#include "plan.hpp"
#include "weights.hpp"

#include <optional>

namespace quern::vulkan {

/// An opened device and the weights that it packs.
class OpenDevice : public Device {
 public:
  using Device::Device;
  /// Kernels of the baseline read canonical blocks as fast.
  const sdk::PlanePacking* packing() const noexcept { return tier() < Tier::dot ? nullptr : &plane_packing(); }
  void pack(const sdk::PlaneLayout& layout, vulkan::Memory& from, std::uint64_t offset, vulkan::Memory& to, std::uint64_t to_offset) {
    pack_weight(layout, from.address() + offset, to, to_offset, *this);
  }
  vulkan::Memory places;  // of MatrixLayout
};

/// What the user's force_kernel asks for.
struct ForcedKernels {
  Tier tier = Tier::matrices;  // at most, or with persistent dispatches at least
  bool persistent = false;
};

class Backend {
 public:
  using Device = OpenDevice;
  using Memory = vulkan::Memory;
  using Plan = vulkan::Plan;
  using Instance = vulkan::Instance;

  /// Refuses a forced kernel that this plugin has not, and an option `memory` that no plugin has.
  explicit Backend(const quern_host& host);
  /// Opens the loader at first use. Throws Failure with what is missing.
  std::uint32_t device_count();
  quern_device_info device_info(std::uint32_t index, sdk::Texts& texts);
  const char* no_device() const noexcept { return "the Vulkan drivers that are installed see no device"; }
  void prove(std::uint32_t index);
  void explain(const Failure& failure, quern_reason& reason, sdk::Texts& texts) const;
  std::unique_ptr<OpenDevice> open(std::uint32_t index);

 private:
  const CardFacts& card(std::uint32_t index);

  const quern_host& host_;
  const std::optional<ForcedKernels> forced_;
  const bool staged_;
  std::mutex opening_;
  std::shared_ptr<const Api> api_;
  std::vector<CardFacts> cards_;
};

/// Runs kernels of known results; empty, or what was wrong.
std::string self_test(Gpu& gpu);

}  // namespace quern::vulkan

QUERN_PLUGIN_HANDLES(quern::vulkan::Backend);
