// What a case moves and computes at least, from its description alone.
#pragma once

#include "case_table/case.hpp"

namespace quern::conformance {

struct Work {
  double bytes = 0;  // each value once, a state twice; of experts, those that are chosen; 0 where the data decide (attention over pages)
  double flops = 0;  // a multiply-add is two; of products alone, else 0
};

Work work_of(const Case& c);

}  // namespace quern::conformance
