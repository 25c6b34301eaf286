// Reads device names.
#include "device_name.hpp"

#include "plugin_parts.hpp"
#include "quern/graph/error.hpp"

#include <algorithm>
#include <charconv>

namespace quern::loader {

bool DeviceName::matches(const std::string& id, std::uint32_t device_index, const DeviceInfo& info) const {
  if (!plugin_id.empty()) return id == plugin_id && device_index == index;
  if (uuid) return info.uuid == *uuid;
  return !info.pci_address.empty() && info.pci_address == pci_address;
}

std::optional<std::vector<std::uint8_t>> parse_uuid(std::string text) {
  for (const char* prefix : {"GPU-", "MIG-"})
    if (text.starts_with(prefix)) text.erase(0, 4);
  std::erase(text, '-');
  if (text.empty() || text.size() > 32 || text.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) return std::nullopt;
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i + 2 <= text.size(); i += 2) {
    std::uint8_t byte = 0;
    std::from_chars(text.data() + i, text.data() + i + 2, byte, 16);
    bytes.push_back(byte);
  }
  return bytes;
}

std::optional<DeviceName> parse_device_name(const std::string& text, const std::string& source) {
  if (text.empty()) return std::nullopt;
  DeviceName name;
  if (const std::size_t colon = text.find(':'); colon != std::string::npos && colon > 0 && colon + 1 < text.size()) {
    const char* end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data() + colon + 1, end, name.index);
    if (error == std::errc() && stopped == end) {
      name.plugin_id = text.substr(0, colon);
      return name;
    }
  }
  name.pci_address = normal_pci_address(text);
  if (!name.pci_address.empty()) return name;
  if (const auto bytes = parse_uuid(text);
      bytes && bytes->size() == 16 && std::ranges::any_of(*bytes, [](std::uint8_t b) { return b != 0; })) {
    name.uuid.emplace();
    std::ranges::copy(*bytes, name.uuid->begin());
    return name;
  }
  throw Error(QUERN_INVALID_ARGUMENT,
              concat(source, " is '", text, "'; it takes a backend and a number ('cuda:0'), a PCI address ('0000:01:00.0') or a UUID"));
}

}  // namespace quern::loader
