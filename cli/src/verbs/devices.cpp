// quern devices: one row a device, best first. A demand that cannot be met is said after the list (exit 3).
#include "verbs.hpp"

#include "engine.hpp"
#include "numbers.hpp"
#include "output.hpp"
#include "text_charts.hpp"

#include <map>

namespace quern::cli {
namespace {

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

std::string memory_of(const quern_device_entry& device) {
  if (device.memory_certainty == QUERN_MEMORY_UNKNOWN) return "?";
  return (device.memory_certainty == QUERN_MEMORY_ESTIMATE ? "~" : "") + byte_words(device.memory_total);
}

std::string table(const quern_device_list* devices) {
  std::string out = padded("DEVICE", 12) + padded("CLASS", 12) + padded("MEMORY", 16) + padded("USE", 6) + "NAME\n";
  for (std::uint64_t at = 0; at < quern_device_list_count(devices); ++at) {
    const auto device = get<quern_device_entry>(quern_device_list_entry, devices, at);
    const char* use = device.selected != 0 ? "yes" : device.usable != 0 ? "-" : "no";
    out += padded(printable(device.name), 11) + " " + padded(printable(device.device_class), 11) + " " + padded(memory_of(device), 15) +
           " " + padded(use, 6) + printable(device.description);
    if (*device.architecture != '\0') out += " (" + printable(device.architecture) + ")";
    if (*device.reason != '\0') out += "\n" + std::string(12, ' ') + printable(device.reason);
    out += "\n";
  }
  return out;
}

std::string device_line(const quern_device_entry& device) {
  std::string line = printable(device.name) + ": " + (device.selected != 0 ? "used" : device.usable != 0 ? "can be used" : "not used");
  if (*device.architecture != '\0') line += ", " + printable(device.architecture);
  if (device.memory_certainty != QUERN_MEMORY_UNKNOWN) line += ", " + memory_of(device);
  if (*device.driver != '\0') line += ", driver " + printable(device.driver);
  return *device.reason == '\0' ? line : line + ": " + printable(device.reason);
}

/// Processors and cards, and below each the devices that backends made of it; devices that no card has come last.
TreeNode tree(const quern_device_list* devices, const Json& report) {
  std::map<std::string, quern_device_entry> left;
  for (std::uint64_t at = 0; at < quern_device_list_count(devices); ++at) {
    const auto device = get<quern_device_entry>(quern_device_list_entry, devices, at);
    left.emplace(device.name, device);
  }
  TreeNode root{"this machine", {}};
  for (const Json& card : report.at("cards")) {
    const std::string address = card.at("address"), driver = card.at("driver");
    TreeNode node{printable(card.at("name").get<std::string>()), {}};
    if (!address.empty())
      node.text += " at " + printable(address) + (driver.empty() ? ", no kernel driver" : ", kernel driver " + printable(driver));
    for (const Json& verdict : card.at("verdicts")) {
      const std::string name = verdict.at("device");
      if (const auto found = left.find(name); found != left.end()) {
        node.below.push_back({device_line(found->second), {}});
        left.erase(found);
      } else {
        node.below.push_back({printable(name.empty() ? verdict.at("backend").get<std::string>() : name) +
                                  ": not used: " + printable(verdict.at("reason").get<std::string>()),
                              {}});
      }
    }
    if (node.below.empty()) node.below.push_back({"no installed backend drives it", {}});
    root.below.push_back(std::move(node));
  }
  TreeNode others{"devices of no card that the kernel lists", {}};
  for (const auto& [name, device] : left) others.below.push_back({device_line(device) + " (" + printable(device.description) + ")", {}});
  if (!others.below.empty()) root.below.push_back(std::move(others));
  return root;
}

}  // namespace

int devices_verb(const CommandLine& line, const Settings& settings) {
  const Runtime runtime = open_runtime(settings);
  const auto devices = make<DeviceList>(quern_runtime_devices, runtime.get());
  if (line.json) {
    const auto text = make<Text>(quern_device_list_json, static_cast<const quern_device_list*>(devices.get()));
    write_json({{"devices", Json::parse(view(text))}});
  } else if (line.devices.tree) {
    const auto report = make<LoadReport>(quern_runtime_load_report, runtime.get());
    const auto json = make<Text>(quern_load_report_json, static_cast<const quern_load_report*>(report.get()));
    write_out(tree_text(tree(devices.get(), Json::parse(view(json))), has_utf8(process_environment)));
  } else {
    write_out(table(devices.get()));
  }
  check(quern_runtime_ready(runtime.get()));
  return exit_ok;
}

}  // namespace quern::cli
