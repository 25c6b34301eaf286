// strftime with English names, whatever the locale of the process.
#pragma once

#include "runtime.hpp"

#include <ctime>
#include <string>
#include <string_view>

namespace quern::jinja {

/// Formats a local time. The weekday and the day of the year are worked out from the date. A field out of its
/// range and a directive that is not offered are refused.
Value format_time(Runtime& runtime, const Text& format, const std::tm& time);

}  // namespace quern::jinja
