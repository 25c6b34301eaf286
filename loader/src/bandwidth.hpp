// The small measured test that breaks ties between devices of one class.
#pragma once

#include "quern/loader/report.hpp"
#include "quern/quern_plugin_api.h"

namespace quern::loader {

/// Bytes per second (read plus written) of a copy within the device's own memory, best of three; 0 if it
/// cannot be measured (host memory, or a call failed). Makes a context on the device: for the helper process.
double measure_copy_bandwidth(const quern_plugin_api& api, quern_device* device, const DeviceInfo& info);

}  // namespace quern::loader
