// A case's attribute as the ABI takes it: the type of each key is a row of keys.def.
#pragma once

#include "case_table/case.hpp"

namespace quern::conformance {

/// Throws std::logic_error for a key without a row.
quern_attribute abi_attribute(const Attribute& a);

}  // namespace quern::conformance
