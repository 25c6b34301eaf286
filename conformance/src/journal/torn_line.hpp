// A journal that was cut off: power or a signal may end the suite between any two bytes.
#pragma once

#include <string>

namespace quern::conformance {

/// Cuts the file behind its last whole line. Nothing if there is no file, or none of its lines is torn.
/// Throws std::system_error if the file cannot be shortened.
void drop_torn_line(const std::string& path);

}  // namespace quern::conformance
