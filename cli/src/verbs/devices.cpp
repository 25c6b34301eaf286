// quern devices: one row a device, best first. A demand that cannot be met is said after the list (exit 3).
#include "verbs.hpp"

#include "engine.hpp"
#include "numbers.hpp"
#include "output.hpp"

namespace quern::cli {
namespace {

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

std::string memory_of(const quern_device_entry& device) {
  if (device.memory_certainty == QUERN_MEMORY_UNKNOWN) return "?";
  return (device.memory_certainty == QUERN_MEMORY_ESTIMATE ? "~" : "") + in_mib(device.memory_total);
}

std::string table(const quern_device_list* devices) {
  std::string out = padded("DEVICE", 12) + padded("CLASS", 12) + padded("MEMORY", 16) + padded("USE", 6) + "NAME\n";
  for (std::uint64_t at = 0; at < quern_device_list_count(devices); ++at) {
    const auto device = get<quern_device_entry>(quern_device_list_entry, devices, at);
    const char* use = device.selected != 0 ? "yes" : device.usable != 0 ? "-" : "no";
    out += padded(printable(device.name), 11) + " " + padded(printable(device.device_class), 11) + " " + padded(memory_of(device), 15) + " " +
           padded(use, 6) + printable(device.description);
    if (*device.architecture != '\0') out += " (" + printable(device.architecture) + ")";
    if (*device.reason != '\0') out += "\n" + std::string(12, ' ') + printable(device.reason);
    out += "\n";
  }
  return out;
}

}  // namespace

int devices_verb(const CommandLine& line, const Settings& settings) {
  const Runtime runtime = open_runtime(settings);
  const auto devices = make<DeviceList>(quern_runtime_devices, runtime.get());
  if (line.json) {
    const auto text = make<Text>(quern_device_list_json, static_cast<const quern_device_list*>(devices.get()));
    write_json({{"devices", Json::parse(view(text))}});
  } else {
    write_out(table(devices.get()));
  }
  check(quern_runtime_ready(runtime.get()));
  return exit_ok;
}

}  // namespace quern::cli
