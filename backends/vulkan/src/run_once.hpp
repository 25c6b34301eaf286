// Kernels that run outside of a plan: packing weights, the probe's proof, the layout of matrices.
#pragma once

#include "launcher.hpp"

#include <functional>

namespace quern::vulkan {

/// Makes the pipelines of what `launch` launches, runs it and waits for its end. It is called twice, the first time dry.
void run_once(Gpu& gpu, const std::function<void(Launcher&)>& launch);

}  // namespace quern::vulkan
