// Orders probed devices, best first, and records why.
//
// Pure: it reads probe results and returns an order. It opens no library and calls no device, so its tests
// need no plugin. The ranking rules are in loader/README.md.
#include "ranking.hpp"

#include "codes.hpp"
#include "quern/graph/error.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

namespace quern::loader {
namespace {

bool has_uuid(const DeviceInfo& d) {
  return std::ranges::any_of(d.uuid, [](std::uint8_t b) { return b != 0; });
}

struct NativeApi {
  std::uint32_t vendor;
  const char* plugin_id;
};

/// PCI vendors and the APIs that are their own.
constexpr NativeApi native_apis[] = {{0x10de, "cuda"}, {0x1002, "rocm"}, {0x1002, "hip"}, {0x8086, "level_zero"}, {0x8086, "sycl"}};

bool is_native(const Candidate& c) {
  return std::ranges::any_of(native_apis, [&](const NativeApi& n) { return n.vendor == c.device.vendor_id && c.plugin_id == n.plugin_id; });
}

std::size_t demand_place(const std::string& id, const RankRules& rules) {
  return static_cast<std::size_t>(std::ranges::find(rules.demand, id) - rules.demand.begin());
}

bool is_behind(const Candidate& c, const RankRules& rules) { return std::ranges::find(rules.behind, c.plugin_id) != rules.behind.end(); }

/// Which of two plugins keeps a device that both serve; true: a.
bool keeps(const Candidate& a, const Candidate& b, const RankRules& rules) {
  const auto key = [&](const Candidate& c) {
    return std::make_tuple(c.label != rules.named, demand_place(c.plugin_id, rules), is_behind(c, rules), !is_native(c), c.plugin_id,
                           c.index);
  };
  return key(a) < key(b);
}

/// Cards of one model differ only in the noise of their measurement.
void level_bandwidths(std::vector<Candidate>& candidates) {
  std::map<std::pair<std::string, std::string>, double> best;
  for (const Candidate& c : candidates) {
    double& b = best[{c.plugin_id, c.device.name}];
    b = std::max(b, c.bandwidth);
  }
  for (Candidate& c : candidates) c.bandwidth = best[{c.plugin_id, c.device.name}];
}

}  // namespace

bool same_physical_device(const Candidate& a, const Candidate& b) {
  const bool pci = !a.device.pci_address.empty() && !b.device.pci_address.empty();
  const bool uuid = has_uuid(a.device) && has_uuid(b.device);
  if (a.plugin_id == b.plugin_id) return pci && uuid && a.device.pci_address == b.device.pci_address && a.device.uuid == b.device.uuid;
  if (pci) return a.device.pci_address == b.device.pci_address;
  return uuid && a.device.uuid == b.device.uuid;
}

Ranking rank(std::vector<Candidate> candidates, const RankRules& rules) {
  Ranking result;
  std::vector<Candidate> usable;
  for (Candidate& c : candidates) {
    if (c.device.device_class == QUERN_DEVICE_SOFTWARE && c.label != rules.named)
      result.dropped.push_back({std::move(c), code::device_software, "a software rasteriser is used only if it is named", {}});
    else usable.push_back(std::move(c));
  }
  for (Dropped& d : result.dropped) d.remedy = concat("set QUERN_DEVICE=", d.candidate.label, " to use it");

  for (std::size_t i = 0; i < usable.size(); ++i) {
    const auto better = std::ranges::find_if(usable, [&](const Candidate& other) {
      return &other != &usable[i] && same_physical_device(usable[i], other) && keeps(other, usable[i], rules);
    });
    if (better == usable.end()) result.order.push_back(usable[i]);
    else
      result.dropped.push_back({usable[i], code::device_duplicate, concat("the same device as ", better->label, ", which serves it"),
                                concat("set QUERN_BACKEND=", usable[i].plugin_id, " to use it through this API")});
  }
  level_bandwidths(result.order);
  std::ranges::sort(result.order, [&](const Candidate& a, const Candidate& b) {
    const auto head = [&](const Candidate& c) {
      return std::make_tuple(demand_place(c.plugin_id, rules), is_behind(c, rules), c.device.device_class);
    };
    const auto tail = [](const Candidate& c) { return std::tie(c.device.name, c.plugin_id, c.index); };
    if (head(a) != head(b)) return head(a) < head(b);
    if (a.bandwidth != b.bandwidth) return a.bandwidth > b.bandwidth;
    return tail(a) < tail(b);
  });
  return result;
}

std::vector<std::string> unmeasured_ties(const std::vector<Candidate>& order) {
  std::vector<std::string> ids;
  const auto add = [&ids](const Candidate& c) {
    if (c.bandwidth == 0 && std::ranges::find(ids, c.plugin_id) == ids.end()) ids.push_back(c.plugin_id);
  };
  for (const Candidate& a : order)
    for (const Candidate& b : order)
      if (&a != &b && a.device.device_class == b.device.device_class && a.device.device_class <= QUERN_DEVICE_INTEGRATED &&
          a.device.name != b.device.name)
        add(a), add(b);
  return ids;
}

}  // namespace quern::loader
