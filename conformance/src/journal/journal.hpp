// The journal: one JSON object a line, the truth of a run. Every other report is derived from it.
//
//   {"suite":..., "profile":..., "cases":N, "targets":[...]}       first
//   {"begin": case, "target": label}                                before each case
//   {"end": case, "target": label, "status":..., "text":..., "worst":..., "compared":..., "tier":..., "kernel":..., "ms":...}
//   {"totals": ...}                                                 last
// A begin without its end is a case during which the whole suite was ended; --resume runs it again.
#pragma once

#include "case_table/case.hpp"
#include "judge/verdict.hpp"
#include "worker/target.hpp"

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
  /// resumed and belongs to other targets, another profile or another suite.
  Journal(const std::string& path, bool resume, Profile profile, std::size_t cases, const std::vector<Target>& targets);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  const Finished& finished() const noexcept { return finished_; }
  // Each writes one whole line and returns when the kernel has it. Any thread.
  void begin(const std::string& case_name, const std::string& target);
  void end(const std::string& case_name, const std::string& target, const CaseResult& result);
  void totals(const std::string& json_text);

 private:
  void line(const std::string& text);
  int fd_ = -1;
  std::mutex mutex_;
  Finished finished_;
};

}  // namespace quern::conformance
