// Whether a journal proves what it claims: of this suite, these plugins, devices and drivers, each case once, everything green.
#pragma once

#include "case_table/exclusions.hpp"
#include "report/record.hpp"

#include <set>
#include <string>
#include <vector>

namespace quern::conformance {

struct Finding {
  bool holds;
  std::string text;
};

/// What a journal is compared with.
struct Claim {
  Header now;                                      // of this program, with the targets that are here
  std::vector<std::string> names;                  // the cases that it must have, each once on each device
  std::set<std::string> without_elements;          // of them, those that have no output element by design and so compare nothing
  std::vector<std::vector<Exclusion>> exclusions;  // that may be waived, one list a target of the record
  std::set<std::string> optional;                  // cases that may be waived without: what the ABI lets a plugin do without
};

/// Pure. One finding a claim; those that do not hold name the first cases that break them. Nothing proves that a journal was not written
/// by hand: that takes a run of one's own.
std::vector<Finding> verify_record(const Record& record, const Claim& claim);

}  // namespace quern::conformance
