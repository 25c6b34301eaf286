// The load report as plain sentences.
#include "codes.hpp"
#include "quern/base/terminal_text.hpp"
#include "quern/loader/machine.hpp"
#include "quern/loader/report.hpp"

#include <algorithm>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

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
  if (!d.driver_have.empty()) driver = "driver " + d.driver_have + (d.driver_need.empty() ? "" : ", needs " + d.driver_need);
  return d.name + " (" + joined({class_name(d.device_class), d.architecture, driver, d.pci_address}, ", ") + ")";
}

std::vector<const DeviceReport*> ranked_devices(const Report& report) {
  std::vector<const DeviceReport*> ranked;
  for (const ReportEntry& e : report.entries)
    for (const DeviceReport& d : e.devices)
      if (d.rank >= 0) ranked.push_back(&d);
  std::ranges::sort(ranked, {}, &DeviceReport::rank);
  return ranked;
}

void write_devices(std::ostream& out, const std::vector<const DeviceReport*>& ranked) {
  if (ranked.empty()) return;
  out << "\nDevices that can be used, best first:\n";
  for (const DeviceReport* d : ranked) out << "  " << d->rank + 1 << ". " << clean(d->label) << ": " << clean(describe(d->info)) << "\n";
}

/// What was said already, so that the page says it once.
class Said {
 public:
  explicit Said(const Report& report) {
    for (const ReportEntry& e : report.entries) causes_.push_back(e.cause);
  }

  /// `cause` without the part that another entry's cause is.
  std::string own_part(const std::string& cause) const {
    std::string own = cause;
    for (const std::string& other : causes_) {
      if (other.empty() || other == cause) continue;
      if (const auto at = own.find(other); at != std::string::npos && at > 0) own.erase(at);
    }
    while (!own.empty() && std::string_view(" :;,").find(own.back()) != std::string_view::npos) own.pop_back();
    return own;
  }
  /// Whether an entry says this sentence.
  bool in_an_entry(const std::string& sentence) const {
    return std::ranges::any_of(causes_, [&](const std::string& cause) { return cause.find(sentence) != std::string::npos; });
  }
  /// `text` without a long end that the page has already.
  static std::string new_part(const std::string& text, const std::string& page) {
    constexpr std::size_t long_enough = 30;
    for (std::size_t at = text.find(": "); at != std::string::npos; at = text.find(": ", at + 2))
      if (text.size() - at > long_enough && page.find(text.substr(at + 2)) != std::string::npos) return text.substr(0, at) + ", as above";
    return text;
  }
  bool is_new(const std::string& remedy) { return remedies_.insert(remedy).second; }

 private:
  std::vector<std::string> causes_;
  std::set<std::string> remedies_;  // and commands
};

void write_remedy(std::ostream& out, Said& said, const std::string& remedy, const std::string& command = {}) {
  const bool sentence = !remedy.empty() && remedy != command && said.is_new(remedy), type = !command.empty() && said.is_new(command);
  if (sentence) out << "     What to do: " << clean(remedy) << ".\n";
  if (type) out << "     Type: " << clean(command) << "\n";
  if (!sentence && !type && !(remedy.empty() && command.empty())) out << "     What to do: the same as above.\n";
}

const char* mark_of(Status status) {
  switch (status) {
    case Status::usable: return "[ok] ";
    case Status::skipped: return "[--] ";
    case Status::refused: return "[no] ";
    case Status::limited:
    case Status::warning: break;
  }
  return "[!!] ";
}

/// The devices of a plugin that are not used; those with one reason together.
void write_unused_devices(std::ostream& out, const ReportEntry& e, Said& said) {
  std::vector<std::pair<std::string, std::vector<const DeviceReport*>>> groups;
  for (const DeviceReport& d : e.devices) {
    if (d.rank >= 0 || d.reason == e.cause) continue;
    auto found = std::ranges::find(groups, d.reason, [](const auto& group) { return group.first; });
    if (found == groups.end()) found = groups.insert(groups.end(), {d.reason, {}});
    found->second.push_back(&d);
  }
  for (const auto& [reason, devices] : groups) {
    std::string names;
    for (const DeviceReport* d : devices) names += (names.empty() ? "" : ", ") + d->label + " (" + d->info.name + ")";
    const bool known = e.cause.find(reason) != std::string::npos;
    out << "     " << clean(names) << (devices.size() == 1 ? " is not used" : " are not used") << (known ? "" : ": " + clean(reason))
        << " (" << devices.front()->code << ").\n";
    std::set<std::pair<std::string, std::string>> here;
    for (const DeviceReport* d : devices)
      if ((d->remedy != e.remedy || d->command != e.command) && here.insert({d->remedy, d->command}).second)
        write_remedy(out, said, d->remedy, d->command);
  }
}

void write_entry(std::ostringstream& out, const ReportEntry& e, Said& said) {
  const std::string cause = clean(Said::new_part(said.own_part(e.cause), out.str()));
  const std::string name = clean(joined({e.id, e.version}, " "));
  const std::string what = name.empty() ? std::string("A file") : name;
  out << mark_of(e.status);
  switch (e.status) {
    case Status::usable: out << what << " can be used"; break;
    case Status::limited: out << what << " can be used, with limits"; break;
    case Status::skipped: out << (e.stage == Stage::system ? "Note: " : what + " is not used: ") << cause; break;
    case Status::refused: out << (name.empty() ? "" : what + " cannot be used: ") << cause; break;
    case Status::warning: out << "Note: " << cause; break;
  }
  const bool used = e.status == Status::usable || e.status == Status::limited;
  if (used)
    out << ".\n     File: " << clean(e.path) << ", ABI minor " << e.abi_minor << (e.from_cache ? ", probed earlier" : "")
        << (e.in_process ? ", probed in this process" : "") << ".\n";
  else out << " (" << e.code << ", " << stage_name(e.stage) << ").\n";
  if (!used) write_remedy(out, said, e.remedy, e.command);
  if (!e.raw_error.empty() && e.cause.find(e.raw_error) == std::string::npos)
    out << "     In its own words: " << clean(e.raw_error) << "\n";
  if (used)
    for (const Reason& r : e.reasons) {
      out << "     Limit: " << clean(r.text) << ".\n";
      write_remedy(out, said, r.remedy);
    }
  write_unused_devices(out, e, said);
  if (!e.printed.empty()) out << "     It printed while it was probed: " << clean(std::string(cut_at_character(e.printed, 400))) << "\n";
}

/// The reason of a card's verdict stands with the plugin below, where one gives it.
void write_verdict(std::ostream& out, const CardVerdict& v, const Report& report, const Said& said) {
  out << "    " << clean(v.label.empty() ? v.backend : v.label);
  if (v.used) {
    out << ": used\n";
    return;
  }
  const bool below = said.in_an_entry(v.reason) || std::ranges::any_of(report.entries, [&](const ReportEntry& e) {
                       return std::ranges::any_of(e.devices, [&](const DeviceReport& d) { return d.rank < 0 && d.reason == v.reason; });
                     });
  out << ": not used" << (below || v.reason.empty() ? "" : ": " + clean(v.reason)) << " (" << v.code << (below ? ", below)\n" : ")\n");
}

void write_machine(std::ostream& out, const MachineFacts& machine, const Report& report, const Said& said) {
  out << "\nProcessors and graphics cards of this machine:\n";
  for (const PhysicalDevice& d : machine.devices) {
    const std::string driver = d.address.empty() ? "" : d.driver.empty() ? "no kernel driver" : "kernel driver " + d.driver;
    const std::string where = joined({d.address.empty() ? "" : "at " + d.address, driver}, ", ");
    out << "  " << clean(d.name) << (where.empty() ? "" : " (" + clean(where) + ")") << "\n";
    for (const CardVerdict& v : d.verdicts) write_verdict(out, v, report, said);
    const bool noted = !d.address.empty() && std::ranges::any_of(report.entries, [&](const ReportEntry& e) {
      return e.stage == Stage::system && e.cause.find(d.address) != std::string::npos;
    });
    if (d.verdicts.empty()) out << (noted ? "    not used, see the note below\n" : "    no installed backend drives it\n");
  }
}

/// What stops every model: the demand, or that there is no device. Null if nothing does.
const ReportEntry* what_stops(const Report& report) {
  for (const ReportEntry& e : report.entries)
    if (e.stage == Stage::system && e.code == code::demand_unmet) return &e;
  return nullptr;
}

void write_answer(std::ostream& out, const Report& report, const std::vector<const DeviceReport*>& ranked, const ReportEntry* stop,
                  Said& said) {
  if (stop != nullptr) {
    out << "[no] Quern runs no model here: " << clean(said.own_part(stop->cause)) << " (" << stop->code << ").\n";
    write_remedy(out, said, stop->remedy, stop->command);
  } else if (ranked.empty()) {
    out << "[no] Quern runs no model here: no device can be used.\n";
  } else {
    const auto notes = std::ranges::count_if(report.entries, [](const ReportEntry& e) { return e.status != Status::usable; });
    out << "[ok] Quern works here, on " << clean(ranked.front()->label) << ".";
    if (notes != 0) out << (notes == 1 ? " There is 1 note below." : " There are " + std::to_string(notes) + " notes below.");
    out << "\n";
  }
}

void write_software(std::ostream& out, const MachineFacts& machine) {
  out << "\nDrivers and libraries that backends look for:\n";
  if (!machine.nvidia_driver.empty()) out << "  NVIDIA's driver in the kernel: " << clean(machine.nvidia_driver) << "\n";
  std::vector<std::string> missing;
  for (const MachineLibrary& l : machine.libraries) {
    if (l.path.empty()) missing.push_back(l.soname);
    else
      out << "  " << clean(l.soname) << ": " << clean(joined({l.version, l.path}, ", ")) << (l.usable ? "" : ", which is no library")
          << "\n";
  }
  for (const VulkanDriver& d : machine.vulkan_drivers) {
    out << "  Vulkan driver " << clean(d.manifest) << ": ";
    out << (d.cause.empty() ? clean(joined({d.library, d.api_version.empty() ? "" : "Vulkan " + d.api_version}, ", "))
                            : "cannot be used (" + d.code + ")")
        << "\n";
  }
  if (!missing.empty()) out << "  Not installed: " << clean(joined(missing, ", ")) << "\n";
}

std::string words(const Report& report, const MachineFacts* machine) {
  std::ostringstream out;
  Said said(report);
  const std::vector<const DeviceReport*> ranked = ranked_devices(report);
  const ReportEntry* stop = what_stops(report);
  write_answer(out, report, ranked, stop, said);
  write_devices(out, ranked);
  if (machine != nullptr) write_machine(out, *machine, report, said);
  for (const ReportEntry& e : report.entries) {
    if (&e == stop) continue;  // the first line
    out << "\n";
    write_entry(out, e, said);
  }
  out << "\n"
      << (report.directories.empty() ? "No directory was searched for backends.\n"
                                     : "Searched for backends in " + clean(joined(report.directories, ", then ")) + ".\n");
  if (machine != nullptr) write_software(out, *machine);
  return out.str();
}

}  // namespace

std::string to_words(const Report& report) { return words(report, nullptr); }

std::string to_words(const Report& report, const MachineFacts& machine) { return words(report, &machine); }

}  // namespace quern::loader
