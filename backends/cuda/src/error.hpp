// Failures of this plugin: the SDK's, and those of the CUDA driver in words.
#pragma once

#include "quern/quern_plugin.hpp"

namespace quern::cuda {

using sdk::concat;
using sdk::Failure;

[[noreturn]] inline void refuse(std::string text, std::uint32_t rule = 0) { throw Failure(QUERN_INVALID_ARGUMENT, std::move(text), rule); }
[[noreturn]] inline void unsupported(std::string text) { throw Failure(QUERN_UNSUPPORTED, std::move(text)); }

}  // namespace quern::cuda
