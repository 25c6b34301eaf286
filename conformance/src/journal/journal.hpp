// The journal: one JSON object a line, the truth of a run. Every other report is derived from it.
//
//   {"suite":..., "build":..., "profile":..., "targets":[...], ...}  first: header.hpp
//   {"started": "2026-01-31T12:00:00Z", "left_out": [...]}          of each run that wrote to it
//   {"begin": case, "target": label}                                before each case
//   {"end": case, "target": label, "status":..., "text":..., "worst":..., "compared":..., "tier":..., "kernel":..., "ms":...}
//   {"totals": ...}                                                 last
// A begin without its end is a case during which the whole suite was ended; --resume runs it again.
#pragma once

#include "case_table/case.hpp"
#include "journal/header.hpp"
#include "judge/verdict.hpp"
#include "quern/base/files.hpp"

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace quern::conformance {

struct CaseResult {
  Verdict verdict;
  std::string kernel;
  double milliseconds = 0;  // on the device
};

/// What an earlier run wrote: (case, target label) -> its result.
using Finished = std::map<std::pair<std::string, std::string>, CaseResult>;

class Journal {
 public:
  /// Opens the file; `resume`: keeps its lines and reads them into finished(). Throws UsageError if it cannot be written, or if it is
  /// resumed and its header is another one: the text says what differs.
  /// `left_out`: devices that are not tested, with the reason.
  Journal(const std::string& path, bool resume, const Header& header, const std::vector<std::string>& left_out);
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  const Finished& finished() const noexcept { return finished_; }
  // Each writes one whole line and returns when the kernel has it. Any thread.
  void begin(const std::string& case_name, const std::string& target);
  void end(const std::string& case_name, const std::string& target, const CaseResult& result);
  void totals(const std::string& json_text);

 private:
  void line(const std::string& text);
  base::GrowingFile file_;
  std::mutex mutex_;
  Finished finished_;
};

}  // namespace quern::conformance
