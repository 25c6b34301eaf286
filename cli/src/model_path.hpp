// What a user calls MODEL: a file, or a name of what was pulled.
#pragma once

#include "settings.hpp"

#include <string>

namespace quern::cli {

/// What to do about the name of a model of the hub that is not in the cache.
struct Absent {
  bool pull = false;   // --pull
  bool offer = false;  // ask on a terminal whether to
  bool quiet = false;
};

/// A file's path stays as it is; a name becomes the path of its file in the cache, which is downloaded first where that is wanted. Throws
/// Failure for a name that is in neither place, with the nearest that is.
std::string model_path(const std::string& given, const Settings& settings, const Absent& absent);

}  // namespace quern::cli
