// What a summary is of: suite, cases, time, devices, plugins, settings, and what was waived and why.
#pragma once

#include "report/record.hpp"

#include <string>

namespace quern::conformance {

/// A line each; what is at its default is left out.
std::string provenance_text(const Record& record);
/// "waived 17: REASON" for each reason; empty if nothing was.
std::string waivers_text(const Record& record);

}  // namespace quern::conformance
