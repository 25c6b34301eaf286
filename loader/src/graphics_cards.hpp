// The graphics cards that the PCI bus shows, whether or not a plugin can use them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quern::loader {

struct GraphicsCard {
  std::string address;  // "0000:01:00.0"
  std::uint32_t vendor = 0;
  std::uint32_t device = 0;
  std::string driver;  // of the kernel, or empty

  /// "NVIDIA card 10de:2331".
  std::string name() const;
  /// "NVIDIA card 10de:2331 at 0000:01:00.0".
  std::string words() const;
  /// A console adapter of a server or a virtual machine: nothing computes on it, nobody misses it.
  bool only_displays() const;
};

/// From <sys_root>/bus/pci/devices, class 0x03....; sorted by address. Empty where there is no such folder.
std::vector<GraphicsCard> list_graphics_cards(const std::string& sys_root);

}  // namespace quern::loader
