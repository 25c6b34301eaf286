// Search, S0 to S3 over all plugins: what each one is and whether it works.
#pragma once

#include "demand.hpp"
#include "exchange.hpp"
#include "fault_notes.hpp"
#include "inspect.hpp"
#include "probe_cache.hpp"

#include <optional>
#include <string>
#include <vector>

namespace quern::loader {

/// One plugin file, or one plugin in the program.
struct Surveyed {
  std::string path;
  quern_plugin_query_fn registered = nullptr;
  Inspection found;
  Verdict verdict;  // of the last stage
  Stage stage = Stage::search;
  bool skipped = false;  // not opened because nobody may; verdict says why
  bool from_cache = false;
  bool in_process = false;
  double milliseconds = 0;
  Examination examination;         // of S1 to S3, if it came so far
  std::optional<KeptFault> fault;  // of an earlier program, behind S4

  bool usable() const { return verdict.ok(); }
};

struct Survey {
  std::vector<std::string> directories;
  std::vector<ReportEntry> notes;  // of the search and the cache
  std::vector<Surveyed> plugins;   // in the order of the search; those of the program first
};

/// Never throws for a plugin's fault. Helpers of different plugins run at the same time.
Survey survey(const Settings& settings, const Demand& demand);

/// Probes the plugins of these ids again, with their copy bandwidths; keeps what is known where that fails.
void measure(const Settings& settings, const std::vector<std::string>& ids, Survey& survey);

/// Forgets what is kept of a plugin's probes and probes it anew.
void probe_again(const Settings& settings, Surveyed& plugin, std::vector<ReportEntry>& notes);

/// Keeps a plugin's examination as it is now.
void keep_again(const Settings& settings, const Surveyed& plugin);

ReportEntry system_note(Status status, const char* code, std::string cause, std::string remedy);

}  // namespace quern::loader
