// What the activations and their gradients launch. Any strides.
#pragma once

#include "../op.hpp"

namespace quern::cuda {

/// kernels/activation.cu: y of x by the call's op; `kind` is gelu's.
void launch_activation(const Call& call, std::int64_t kind, Launcher& launcher);
void emit_activation(const Call& call, Launcher& launcher);
/// The same of dx by x and dy.
void launch_activation_backward(const Call& call, std::int64_t kind, Launcher& launcher);
void emit_activation_backward(const Call& call, Launcher& launcher);

}  // namespace quern::cuda
