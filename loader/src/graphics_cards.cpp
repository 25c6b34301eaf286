// Reads graphics cards from sysfs.
#include "graphics_cards.hpp"

#include "plugin_parts.hpp"
#include "quern/base/files.hpp"
#include "quern/graph/error.hpp"
#include "quern/graph/folder.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iomanip>
#include <iterator>

namespace quern::loader {
namespace {

namespace fs = std::filesystem;

struct Vendor {
  std::uint32_t id;
  const char* name;
  bool only_displays;
};

constexpr Vendor vendors[] = {
    {0x10de, "NVIDIA", false}, {0x1002, "AMD", false},   {0x8086, "Intel", false},  {0x1013, "Cirrus", true},
    {0x102b, "Matrox", true},  {0x1234, "QEMU", true},   {0x1414, "Hyper-V", true}, {0x15ad, "VMware", true},
    {0x1a03, "ASPEED", true},  {0x1af4, "virtio", true}, {0x1b36, "QXL", true},     {0x80ee, "VirtualBox", true},
};

const Vendor* vendor_of(std::uint32_t id) {
  const auto found = std::ranges::find(vendors, id, &Vendor::id);
  return found == std::end(vendors) ? nullptr : &*found;
}

/// The value of a file that holds "0x10de"; 0 if it cannot be read.
std::uint32_t read_hex(const fs::path& path) {
  std::string text;
  if (base::read_head(path.string(), text, 64) || !text.starts_with("0x")) return 0;
  std::uint32_t value = 0;
  std::from_chars(text.data() + 2, text.data() + text.size(), value, 16);
  return value;
}

}  // namespace

std::string GraphicsCard::name() const {
  const Vendor* known = vendor_of(vendor);
  std::ostringstream text;
  text << (known ? known->name : "graphics") << " card " << std::hex << std::setfill('0') << std::setw(4) << vendor << ':' << std::setw(4)
       << device;
  return text.str();
}

std::string GraphicsCard::words() const { return name() + " at " + address; }

bool GraphicsCard::only_displays() const {
  const Vendor* known = vendor_of(vendor);
  return known && known->only_displays;
}

std::vector<GraphicsCard> list_graphics_cards(const std::string& sys_root) {
  std::vector<GraphicsCard> cards;
  const std::string devices = sys_root + "/bus/pci/devices";
  for (const std::string& name : names_in(devices)) {
    const fs::path folder = devices + "/" + name;
    if (read_hex(folder / "class") >> 16 != 0x03) continue;
    GraphicsCard card;
    card.address = normal_pci_address(folder.filename().string());
    if (card.address.empty()) continue;
    card.vendor = read_hex(folder / "vendor");
    card.device = read_hex(folder / "device");
    std::error_code no_driver;
    card.driver = fs::read_symlink(folder / "driver", no_driver).filename().string();
    cards.push_back(std::move(card));
  }
  std::ranges::sort(cards, {}, &GraphicsCard::address);
  return cards;
}

}  // namespace quern::loader
