// Directories that are no models that can be read, each with what to do instead.
#pragma once

#include "config.hpp"

#include <string>

namespace quern::directory {

/// For a directory without config.json.
[[noreturn]] void refuse_without_config(const std::string& folder);

/// For one with config.json and without safetensors files.
[[noreturn]] void refuse_without_weights(const std::string& folder);

}  // namespace quern::directory
