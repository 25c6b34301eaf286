// Codes and bits of the ABI by the names that the headers give them: what a message says.
#pragma once

#include "quern/quern_status.h"

#include <cstdint>
#include <initializer_list>
#include <string>

namespace quern::conformance {

/// "OK", "INVALID_ARGUMENT"; "status 77" for a code without a name.
std::string status_words(quern_status status);
/// "INVALID_ARGUMENT or UNSUPPORTED"
std::string status_words(std::initializer_list<quern_status> statuses);
/// Of QUERN_FAULT_... bits: "INDEX_RANGE and NON_FINITE", "none"; bits without a name as a number.
std::string fault_words(std::uint64_t faults);

}  // namespace quern::conformance
