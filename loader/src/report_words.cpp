// The load report as plain sentences.
#include "quern/base/terminal_text.hpp"
#include "quern/loader/machine.hpp"
#include "quern/loader/report.hpp"

#include <algorithm>
#include <sstream>

namespace quern::loader {
namespace {

std::string joined(const std::vector<std::string>& parts, const char* between) {
  std::string text;
  for (const std::string& part : parts) {
    if (part.empty()) continue;
    if (!text.empty()) text += between;
    text += part;
  }
  return text;
}

/// Text of a plugin, a driver or a file on one line, with nothing that a terminal would obey.
std::string clean(std::string text) {
  for (char& c : text)
    if (c == '\n' || c == '\t' || c == '\r') c = ' ';
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return printable(text);
}

std::string describe(const DeviceInfo& d) {
  std::string driver;
  if (!d.driver_have.empty())
    driver = "driver " + d.driver_have + (d.driver_need.empty() ? "" : ", needs " + d.driver_need);
  return d.name + " (" + joined({class_name(d.device_class), d.architecture, driver, d.pci_address}, ", ") +
         ")";
}

void write_devices(std::ostream& out, const Report& report) {
  std::vector<const DeviceReport*> ranked;
  for (const ReportEntry& e : report.entries)
    for (const DeviceReport& d : e.devices)
      if (d.rank >= 0) ranked.push_back(&d);
  std::ranges::sort(ranked, {}, &DeviceReport::rank);
  if (ranked.empty()) {
    out << "No device can be used.\n";
    return;
  }
  out << "Devices that can be used, best first:\n";
  for (const DeviceReport* d : ranked)
    out << "  " << d->rank + 1 << ". " << clean(d->label) << ": " << clean(describe(d->info)) << "\n";
}

void write_remedy(std::ostream& out, const std::string& remedy, const std::string& command = {}) {
  if (!remedy.empty() && remedy != command) out << "  What to do: " << clean(remedy) << ".\n";
  if (!command.empty()) out << "  Type: " << clean(command) << "\n";
}

void write_entry(std::ostream& out, const ReportEntry& e) {
  const std::string name = clean(joined({e.id, e.version}, " "));
  const std::string what = name.empty() ? std::string("A file") : name;
  switch (e.status) {
    case Status::usable:
      out << what << " can be used";
      break;
    case Status::limited:
      out << what << " can be used, with limits";
      break;
    case Status::skipped:
      out << (e.stage == Stage::system ? "Note: " : what + " is not used: ") << clean(e.cause);
      break;
    case Status::refused:
      out << (name.empty() ? "" : what + " cannot be used: ") << clean(e.cause);
      break;
    case Status::warning:
      out << "Note: " << clean(e.cause);
      break;
  }
  if (e.status == Status::usable || e.status == Status::limited)
    out << ".\n  File: " << clean(e.path) << ", ABI minor " << e.abi_minor
        << (e.from_cache ? ", probed earlier" : "") << (e.in_process ? ", probed in this process" : "")
        << ".\n";
  else
    out << " (" << e.code << ", " << stage_name(e.stage) << ").\n";
  if (e.status != Status::usable && e.status != Status::limited) write_remedy(out, e.remedy, e.command);
  if (!e.raw_error.empty() && e.cause.find(e.raw_error) == std::string::npos)
    out << "  In its own words: " << clean(e.raw_error) << "\n";
  if (e.status == Status::usable || e.status == Status::limited)
    for (const Reason& r : e.reasons) {
      out << "  Limit: " << clean(r.text) << ".\n";
      write_remedy(out, r.remedy);
    }
  for (const DeviceReport& d : e.devices)
    if (d.rank < 0) {
      if (d.reason == e.cause) continue;
      out << "  " << clean(d.label) << " (" << clean(d.info.name) << ") is not used: " << clean(d.reason) << " ("
          << d.code << ").\n";
      write_remedy(out, d.remedy, d.command);
    }
  if (!e.printed.empty())
    out << "  It printed while it was probed: " << clean(std::string(cut_at_character(e.printed, 400))) << "\n";
}

void write_verdict(std::ostream& out, const CardVerdict& v) {
  out << "    " << clean(v.label.empty() ? v.backend : v.label) << (v.used ? ": used" : ": not used: ") << (v.used ? "" : clean(v.reason));
  out << (v.used ? "\n" : " (" + v.code + ")\n");
}

void write_machine(std::ostream& out, const MachineFacts& machine) {
  out << "\nProcessors and graphics cards of this machine:\n";
  for (const PhysicalDevice& d : machine.devices) {
    const std::string driver = d.address.empty() ? "" : d.driver.empty() ? "no kernel driver" : "kernel driver " + d.driver;
    const std::string where = joined({d.address.empty() ? "" : "at " + d.address, driver}, ", ");
    out << "  " << clean(d.name) << (where.empty() ? "" : " (" + clean(where) + ")") << "\n";
    for (const CardVerdict& v : d.verdicts) write_verdict(out, v);
    if (d.verdicts.empty()) out << "    no installed backend drives it\n";
  }
}

void write_software(std::ostream& out, const MachineFacts& machine) {
  out << "\nDrivers and libraries that backends look for:\n";
  if (!machine.nvidia_driver.empty()) out << "  NVIDIA's driver in the kernel: " << clean(machine.nvidia_driver) << "\n";
  std::vector<std::string> missing;
  for (const MachineLibrary& l : machine.libraries) {
    if (l.path.empty())
      missing.push_back(l.soname);
    else
      out << "  " << clean(l.soname) << ": " << clean(joined({l.version, l.path}, ", ")) << (l.usable ? "" : ", which is no library") << "\n";
  }
  for (const VulkanDriver& d : machine.vulkan_drivers) {
    out << "  Vulkan driver " << clean(d.manifest) << ": ";
    out << (d.cause.empty() ? clean(joined({d.library, d.api_version.empty() ? "" : "Vulkan " + d.api_version}, ", ")) : "cannot be used (" + d.code + ")")
        << "\n";
  }
  if (!missing.empty()) out << "  Not installed: " << clean(joined(missing, ", ")) << "\n";
}

std::string words(const Report& report, const MachineFacts* machine) {
  std::ostringstream out;
  out << (report.directories.empty()
              ? "No directory was searched for backends.\n"
              : "Searched for backends in " + clean(joined(report.directories, ", then ")) + ".\n");
  write_devices(out, report);
  if (machine != nullptr) write_machine(out, *machine);
  for (const ReportEntry& e : report.entries) {
    out << "\n";
    write_entry(out, e);
  }
  if (machine != nullptr) write_software(out, *machine);
  return out.str();
}

}  // namespace

std::string to_words(const Report& report) { return words(report, nullptr); }

std::string to_words(const Report& report, const MachineFacts& machine) { return words(report, &machine); }

}  // namespace quern::loader
