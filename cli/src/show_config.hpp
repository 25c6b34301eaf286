// --show-config: what each flag of a verb would have, and where that comes from.
#pragma once

#include "command_line.hpp"
#include "output.hpp"

#include <map>
#include <string>
#include <vector>

namespace quern::cli {

/// What holds where nothing is given, by flag, as far as it depends on this machine or on the model: "--threads" is "2".
using EffectiveDefaults = std::map<std::string, std::string>;

/// Those that come from the environment alone: folders.
EffectiveDefaults folder_defaults(const Environment& environment);

/// {"verb" (null without one), "settings": [{flag, variable, key (of the configuration file; null if it has none), value, origin
/// ("flag", "environment", "file" or "default"), where}], "files": [{path, exists}]}.
Json config_json(const CommandLine& line, const Environment& environment, const Config& config, const std::vector<std::string>& files,
                 const EffectiveDefaults& defaults = {});

/// The same as a table for people.
std::string config_page(const CommandLine& line, const Environment& environment, const Config& config,
                        const std::vector<std::string>& files, const EffectiveDefaults& defaults = {});

}  // namespace quern::cli
