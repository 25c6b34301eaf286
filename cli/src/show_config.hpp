// --show-config: what each flag of a verb would have, and where that comes from.
#pragma once

#include "command_line.hpp"
#include "output.hpp"

#include <string>
#include <vector>

namespace quern::cli {

/// {"verb" (null without one), "settings": [{flag, variable, key (of the configuration file; null if it has none), value, origin
/// ("flag", "environment", "file" or "default"), where}], "files": [{path, exists}]}.
Json config_json(const CommandLine& line, const Environment& environment, const Config& config,
                 const std::vector<std::string>& files);

/// The same as a table for people.
std::string config_page(const CommandLine& line, const Environment& environment, const Config& config,
                        const std::vector<std::string>& files);

}  // namespace quern::cli
