// What a user calls MODEL: a file, or a name of what was pulled.
#pragma once

#include "settings.hpp"

#include <string>

namespace quern::cli {

/// A file's path stays as it is; a name becomes the path of its file in the cache. Throws Failure for a name that is in
/// neither place.
std::string model_path(const std::string& given, const Settings& settings);

}  // namespace quern::cli
