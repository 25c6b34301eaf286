// A journal that was cut off: power or a signal may end the suite between any two bytes.
#pragma once

#include "quern/base/files.hpp"

namespace quern::conformance {

/// Cuts the file behind its last whole line. Nothing if none of its lines is torn. Throws UsageError if it cannot be read or shortened.
void drop_torn_line(base::GrowingFile& file);

}  // namespace quern::conformance
