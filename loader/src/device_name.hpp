// The three ways to name a device: "cuda:0", a PCI address, a UUID.
#pragma once

#include "quern/loader/loader.hpp"

#include <array>
#include <optional>
#include <string>

namespace quern::loader {

struct DeviceName {
  std::string plugin_id;  // with index: "cuda:0"
  std::uint32_t index = 0;
  std::string pci_address;
  std::optional<std::array<std::uint8_t, 16>> uuid;

  bool matches(const std::string& id, std::uint32_t device_index, const DeviceInfo& info) const;
};

/// Throws Error(QUERN_INVALID_ARGUMENT) naming `source` for anything else. Empty text: no name.
std::optional<DeviceName> parse_device_name(const std::string& text, const std::string& source);

/// The bytes of "GPU-8f...", "MIG-..." or plain hex digits with or without dashes; at most 16 bytes, fewer
/// for a prefix.
std::optional<std::vector<std::uint8_t>> parse_uuid(std::string text);

}  // namespace quern::loader
