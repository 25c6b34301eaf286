// Steps of one element at a time: of ops that are one, and of others.
#pragma once

#include "../views.hpp"

namespace quern::vulkan {

/// y of x by the call's op, with its two numbers; without them where the op has none.
void launch_unary(const Call& call, float s, float t, Launcher& launcher);
void emit_unary(const Call& call, Launcher& launcher);
/// y of a and b by the call's op; `alpha` is add's.
void launch_binary(const Call& call, float alpha, Launcher& launcher);
void emit_binary(const Call& call, Launcher& launcher);

/// As in shaders/activations.glsl.
enum ActivationKind : std::int32_t {
  kind_silu = 0,
  kind_gelu_erf = 1,
  kind_gelu_tanh = 2,
  kind_relu = 3,
  kind_sigmoid = 4,
  kind_gelu_quick = 5,
  kind_relu_sqr = 6,
  kind_tanh = 7
};
/// By the attribute of gelu and its gradient.
ActivationKind gelu_kind(const Call& call);
void launch_activation(const Call& call, ActivationKind kind, Launcher& launcher);
/// dx of x and dy.
void launch_slope(const Call& call, ActivationKind kind, Launcher& launcher);

/// y = x in the dtype of y: floats and i32.
void cast_view(const Tensor& x, const Tensor& y, Launcher& launcher);
/// Every element of y is value: floats and i32.
void fill_view(const Tensor& y, double value, Launcher& launcher);

}  // namespace quern::vulkan
