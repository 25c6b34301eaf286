// What the user selected, as the loader's settings.
#pragma once

#include "cli/options.hpp"
#include "quern/loader/loader.hpp"

#include <filesystem>
#include <string>

namespace quern::conformance {

/// The id in a plugin's file name, libbackend_<id>.so [C5]. Throws std::invalid_argument for another name.
std::string plugin_id(const std::filesystem::path& file);

/// Environment first, then the flags. A --plugin file is searched before all and demanded by its id.
loader::Settings loader_settings(const Selection& selection);

}  // namespace quern::conformance
