// Text inside XML and HTML.
#pragma once

#include <string>
#include <string_view>

namespace quern::conformance {

/// & < > " ' as entities; control characters, which XML 1.0 has no way to hold, and bytes that are no UTF-8 as "?".
std::string escaped(std::string_view text);

}  // namespace quern::conformance
