// Failures of a record by their reason, and its slowest cases.
#pragma once

#include "report/record.hpp"

#include <string>
#include <vector>

namespace quern::conformance {

/// Failures of one device that say the same, but for numbers and the names in quotes and brackets.
struct Reason {
  Status status;
  std::string text;     // of the first
  std::string example;  // the first case
  std::uint64_t count = 0;
};

/// What is the same in all texts of a reason: each number is "#", each part in quotes or in brackets is "'..'" or "(..)".
std::string reason_key(const std::string& text);

/// Of one device, the most frequent first.
std::vector<Reason> reasons(const Record& record, std::size_t target);
/// As lines for people: the count, the status, the text, an example. Reasons of one case alone are left to the list of failures.
std::string reasons_text(const Record& record);

/// The results that took longest, of all devices, longest first.
std::vector<const RecordedResult*> slowest(const Record& record, std::size_t most);
/// "the slowest cases: 3.2 s CASE on cpu:0, ..." with the time of all; empty for a record without results.
std::string times_text(const Record& record);
/// "3.21 s", "4 ms"
std::string duration(double milliseconds);

}  // namespace quern::conformance
