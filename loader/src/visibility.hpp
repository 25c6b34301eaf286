// CUDA_VISIBLE_DEVICES for every plugin: a card that it hides is not reached through another API either.
#pragma once

#include "graphics_cards.hpp"
#include "quern/loader/loader.hpp"

#include <optional>
#include <string>
#include <vector>

namespace quern::loader {

/// Which NVIDIA devices may be used.
class CudaVisibility {
 public:
  /// cuda_devices: what the cuda plugin lists under this variable (the truth where it runs); null if it did
  /// not run. Then the value is read here: UUIDs by prefix, numbers in the order of the PCI bus, and as the
  /// driver does, the first entry that names nothing ends the list.
  CudaVisibility(const Setting<std::string>& variable, const std::vector<Candidate>* cuda_devices, const std::vector<GraphicsCard>& cards);

  /// Why the device may not be used; nothing if it may. Devices of other vendors always may.
  std::optional<std::string> hides(const Candidate& candidate) const;
  bool hides_card(const GraphicsCard& card) const;

 private:
  Setting<std::string> variable_;
  bool from_plugin_ = false;
  std::vector<Candidate> cuda_devices_;
  std::vector<std::string> addresses_;
  std::vector<std::vector<std::uint8_t>> uuid_prefixes_;
};

}  // namespace quern::loader
