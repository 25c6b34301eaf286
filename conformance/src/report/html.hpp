// A run as one HTML page that needs nothing else: no script, no font, no picture.
#pragma once

#include "report/record.hpp"

#include <string>

namespace quern::conformance {

/// What was tested and by what; a table of groups; a table of ops by dtypes and format: passed of all, the tier that all of them attain,
/// the worst error as a share of its bound; devices side by side; the failures with their text. The same record gives the same bytes.
std::string html_page(const Record& record);

}  // namespace quern::conformance
