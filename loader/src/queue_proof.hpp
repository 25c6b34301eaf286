// Whether a device without SYNCHRONOUS gives what the runtime drives it by.
#pragma once

#include "plugin_parts.hpp"

namespace quern::loader {

/// Makes a queue and a fence of an open device and asks the fence. Not ok: the runtime cannot drive the device, and why.
Verdict prove_queue(const Plugin::Parts& plugin, std::uint32_t index, quern_device* device);

}  // namespace quern::loader
