// Failures of this plugin: the SDK's.
#pragma once

#include "quern/quern_device_plugin.hpp"

namespace quern::vulkan {

using sdk::concat;
using sdk::Failure;

[[noreturn]] inline void refuse(std::string text, std::uint32_t rule = 0) { throw Failure(QUERN_INVALID_ARGUMENT, std::move(text), rule); }

}  // namespace quern::vulkan
