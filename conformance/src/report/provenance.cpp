// See provenance.hpp.
#include "report/provenance.hpp"

#include <map>

namespace quern::conformance {

std::string provenance_text(const Record& record) {
  const Header& h = record.header;
  std::string text = "quern-conformance " + h.suite + ", SHA-256 " + h.build + "\n";
  text += "profile " + h.profile + ": " + h.manifest + "; " + std::to_string(h.cases) + " of them chosen, selection " + h.selection + "\n";
  for (const std::string& started : record.started) text += "started " + started + "\n";
  for (const Target& t : h.targets) {
    text += t.label + ": " + t.device_name + ", " + t.architecture + (t.driver.empty() ? "" : ", driver " + t.driver) + "\n";
    text += "  plugin " + t.plugin_id + " " + t.version + ", build " + t.build + ", SHA-256 " + t.sha256 + "\n";
  }
  if (h.seed != 0) text += "seed " + std::to_string(h.seed) + "\n";
  if (h.repeat != 1) text += "each case " + std::to_string(h.repeat) + " times\n";
  if (h.threads != 0) text += "threads of each plugin: " + std::to_string(h.threads) + "\n";
  for (const auto* settings : {&h.options, &h.environment})
    for (const auto& [key, value] : *settings) text += key + "=" + value + "\n";
  return text + "journal, SHA-256 " + record.sha256 + "\n\n";
}

std::string waivers_text(const Record& record) {
  std::map<std::string, std::size_t> reasons;
  for (const RecordedResult& r : record.results)
    if (r.result.verdict.status == Status::waived) ++reasons[record.header.targets[r.target].label + ": " + r.result.verdict.text];
  std::string text;
  for (const auto& [reason, count] : reasons) text += "waived " + std::to_string(count) + " on " + reason + "\n";
  return text;
}

}  // namespace quern::conformance
