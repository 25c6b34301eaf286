// What is behind quern_load_report, and its JSON.
#pragma once

#include "quern/loader/machine.hpp"
#include "quern/loader/report.hpp"

#include <algorithm>
#include <string>
#include <vector>

struct quern_load_report {
  quern::loader::Report report;
  quern::loader::MachineFacts machine;
  std::vector<std::string> selected;  // plugin ids in use

  bool is_selected(const quern::loader::ReportEntry& entry) const;
};

namespace quern::c_api {

inline bool usable(loader::Status status) { return status == loader::Status::usable || status == loader::Status::limited; }

/// "discover", "inspect", "load", "negotiate", "probe" or "open", as quern_load_entry says it.
const char* stage_word(loader::Stage stage);

std::string report_json(const quern_load_report& report);

}  // namespace quern::c_api

inline bool quern_load_report::is_selected(const quern::loader::ReportEntry& entry) const {
  return quern::c_api::usable(entry.status) && std::ranges::find(selected, entry.id) != selected.end();
}
