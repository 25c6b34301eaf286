// A journal as data: what every report is derived from.
#pragma once

#include "journal/journal.hpp"

#include <string>
#include <vector>

namespace quern::conformance {

struct RecordedResult {
  std::string case_name;
  std::size_t target = 0;  // index of the header's
  CaseResult result;
};

struct Record {
  std::string path, sha256;  // of the journal's file
  Header header;
  std::vector<std::string> started;   // one a run that wrote to it
  std::vector<std::string> left_out;  // devices that the last of them did not test, with the reason
  std::vector<RecordedResult> results;
  std::vector<std::string> unfinished;  // "case on cpu:0": begun and never ended
  std::string totals;                   // as written at the end; empty if the run was ended before
};

/// Throws UsageError("FILE: ...") if it cannot be read or is no journal of this suite, naming the line. Of a case that ended twice (a
/// journal that was put together by hand) both results are there.
Record read_record(const std::string& path);

/// "matmul" of "matmul.matmul.f32...": a name begins with its group.
std::string group_of(const std::string& case_name);

}  // namespace quern::conformance
