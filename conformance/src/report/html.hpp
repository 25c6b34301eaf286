// A run as one HTML page that needs nothing else: no font, no picture file, no request. Its one script filters; without it all is shown.
#pragma once

#include "report/record.hpp"

#include <string>

namespace quern::conformance {

/// The verdict; what ran of what there is; the failures with their text; heat maps of groups by devices and of ops by formats, coloured by
/// the worst error as a share of its bound; the numbers behind them; waivers; devices and the run. The same record gives the same bytes.
std::string html_page(const Record& record);

}  // namespace quern::conformance
