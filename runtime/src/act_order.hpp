// Weights whose columns are in the order of their activations (`desc_act`), as the devices of a runtime compute them.
#pragma once

#include "runtime.hpp"

#include "quern/models/gguf.hpp"

#include <string>

namespace quern::runtime {

/// Opens a model. Such weights are blocks with their columns by groups where each device has `take`, which puts inputs in their order. Else they are
/// expanded, and the log says which device lacks it. Throws Error as models::open_model() does.
gguf::File open_for_devices(Runtime& runtime, const std::string& path);

}  // namespace quern::runtime
