// The log, on standard error: lines of the library, and of the program itself.
#pragma once

#include "quern.h"

#include <cstdint>

namespace quern::cli {

/// Lines below this QUERN_LEVEL_... are dropped from now on. From any thread.
void set_log_level(std::uint32_t level);

/// A quern_log_callback; `user` is not used.
void log_from_library(void* user, std::uint32_t level, const char* component, const char* text);

}  // namespace quern::cli
