// A model into the cache, with a bar.
#pragma once

#include "settings.hpp"

#include <string>

namespace quern::cli {

/// Downloads a model, unless it is there, and gives the path of its file. `sha256` may be empty. Ctrl-C ends the program by the signal, behind
/// the sentence that what came is kept. Throws Failure.
std::string download_model(const std::string& name, const std::string& sha256, const Settings& settings, bool quiet);

}  // namespace quern::cli
