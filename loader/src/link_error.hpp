// Turns the words of the system's dynamic linker into a code, a cause and a remedy.
#pragma once

#include "inspect.hpp"
#include "verdict.hpp"

#include <string>

namespace quern::loader {

/// Pure. `raw` is what dlerror() said when `path` was loaded; `found` gives the needed libraries and the
/// packages.
Verdict explain_link_error(const std::string& path, const std::string& raw, const Inspection& found);

}  // namespace quern::loader
