// S1: loads a library into this process, for good.
#pragma once

#include "inspect.hpp"
#include "verdict.hpp"

#include <string>

namespace quern::loader {

struct LoadedLibrary {
  quern_plugin_query_fn entry = nullptr;
};

/// Loads the file at an absolute path with all symbols bound now, and finds the entry. The library stays
/// loaded until the process ends, also when it has no entry: threads, thread-local destructors or other
/// libraries may point into it.
Verdict load_library(const std::string& path, const Inspection& found, LoadedLibrary& loaded);

}  // namespace quern::loader
