// Ordinary cases again under what a session does with every node: ranged rows, a predicate, values that come as patches.
#pragma once

#include "case_table/case_table.hpp"

namespace quern::conformance {

/// For each op of variants.def, adds variants of a few of its quick cases in each combination of dtypes.
void add_variants(CaseSink& sink);

}  // namespace quern::conformance
