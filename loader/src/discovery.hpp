// Which files may be plugins: the search order, without opening a file.
#pragma once

#include "quern/loader/loader.hpp"

#include <string>
#include <vector>

namespace quern::loader {

struct Discovery {
  std::vector<std::string> directories;  // searched, in order
  std::vector<std::string> files;        // real paths, in order, each once
  std::vector<ReportEntry> notes;        // directories that were not searched, files that came twice
};

/// default_directories: the first that exists is the default (default_plugin_directory()'s candidates).
Discovery discover(const Settings& settings, const std::vector<std::string>& default_directories);

}  // namespace quern::loader
