// The results of a record by op, dtypes and block format.
#pragma once

#include "report/record.hpp"

#include <map>
#include <string>
#include <vector>

namespace quern::conformance {

struct OpKey {
  std::string group, op, dtypes, format;  // "matmul", "matmul", "f32", "q4_k"; "-" where there is none
  auto operator<=>(const OpKey&) const = default;
};

/// What the name of a case says; a script has its area as its op ("queue" of "abi.queue.fence_order").
OpKey op_key(const std::string& case_name);

struct OpCell {
  std::uint64_t cases = 0, passed = 0, waived = 0;
  std::string tier;  // the worst that a passed case attained; empty if none is an accumulation
  double worst = 0;  // error / bound of the passed cases
};

/// One cell a device of the header.
std::map<OpKey, std::vector<OpCell>> op_table(const Record& record);

}  // namespace quern::conformance
