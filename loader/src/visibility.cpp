// CUDA_VISIBLE_DEVICES, applied outside of the cuda plugin.
#include "visibility.hpp"

#include "device_name.hpp"
#include "quern/graph/error.hpp"
#include "ranking.hpp"

#include <algorithm>
#include <charconv>
#include <sstream>

namespace quern::loader {
namespace {

constexpr std::uint32_t nvidia_vendor = 0x10de;

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t");
  return first == std::string::npos ? std::string() : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace

CudaVisibility::CudaVisibility(const Setting<std::string>& variable, const std::vector<Candidate>* cuda_devices,
                               const std::vector<GraphicsCard>& cards)
    : variable_(variable) {
  if (!variable.is_set()) return;
  if (cuda_devices) {
    from_plugin_ = true;
    cuda_devices_ = *cuda_devices;
    return;
  }
  std::vector<std::string> nvidia_addresses;
  for (const GraphicsCard& card : cards)
    if (card.vendor == nvidia_vendor) nvidia_addresses.push_back(card.address);
  std::istringstream in(variable.value);
  for (std::string item; std::getline(in, item, ',');) {
    item = trimmed(item);
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), number);
    if (!item.empty() && error == std::errc() && end == item.data() + item.size()) {
      if (number >= nvidia_addresses.size()) break;
      addresses_.push_back(nvidia_addresses[number]);
    } else if (const auto bytes = parse_uuid(item); item.starts_with("GPU-") && bytes && !bytes->empty()) {
      uuid_prefixes_.push_back(*bytes);
    } else {
      break;
    }
  }
}

std::optional<std::string> CudaVisibility::hides(const Candidate& c) const {
  if (!variable_.is_set() || c.plugin_id == "cuda" || c.device.vendor_id != nvidia_vendor) return std::nullopt;
  const bool visible = from_plugin_ ? std::ranges::any_of(cuda_devices_, [&](const Candidate& d) { return same_physical_device(c, d); })
                                    : std::ranges::find(addresses_, c.device.pci_address) != addresses_.end() ||
                                          std::ranges::any_of(uuid_prefixes_, [&](const std::vector<std::uint8_t>& prefix) {
                                            return std::equal(prefix.begin(), prefix.end(), c.device.uuid.begin());
                                          });
  if (visible) return std::nullopt;
  return concat(variable_.source, "='", variable_.value, "' hides this card");
}

bool CudaVisibility::hides_card(const GraphicsCard& card) const {
  if (card.vendor != nvidia_vendor || !variable_.is_set()) return false;
  if (from_plugin_) return std::ranges::none_of(cuda_devices_, [&](const Candidate& d) { return d.device.pci_address == card.address; });
  // By UUID nothing can be said of a card that no plugin described.
  return uuid_prefixes_.empty() && std::ranges::find(addresses_, card.address) == addresses_.end();
}

}  // namespace quern::loader
