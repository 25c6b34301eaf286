// See elementwise.hpp.
#include "elementwise.hpp"

namespace quern::vulkan {
namespace {

// As in shaders/elementwise.comp.
constexpr std::int32_t activate = 100, slope = 101;

void launch_elements(const Tensor& a, const Tensor& b, const Tensor& y, float s, float t, std::int32_t op, std::int32_t kind,
                     Launcher& launcher) {
  for_each_part(y, {&a, &b, &y}, [&](const Shape& shape, const View* v) {
    const ElementwiseParams p{shape, v[0], v[1], v[2], s, t};
    launcher.launch("elementwise", launcher.item_threads(), launcher.spread(shape.count), p, {op, kind});
  });
}

}  // namespace

void launch_unary(const Call& call, float s, float t, Launcher& launcher) {
  launch_elements(call.input(0), {}, call.output(0), s, t, static_cast<std::int32_t>(call.op), 0, launcher);
}

void emit_unary(const Call& call, Launcher& launcher) { launch_unary(call, 1, 0, launcher); }

void launch_binary(const Call& call, float alpha, Launcher& launcher) {
  launch_elements(call.input(0), call.input(1), call.output(0), alpha, 0, static_cast<std::int32_t>(call.op), 0, launcher);
}

void emit_binary(const Call& call, Launcher& launcher) { launch_binary(call, 1, launcher); }

ActivationKind gelu_kind(const Call& call) {
  constexpr ActivationKind kinds[] = {kind_gelu_erf, kind_gelu_tanh, kind_gelu_quick};
  return kinds[call.integer(QUERN_KEY_KIND)];
}

void launch_activation(const Call& call, ActivationKind kind, Launcher& launcher) {
  launch_elements(call.input(0), {}, call.output(0), 1, 0, activate, kind, launcher);
}

void launch_slope(const Call& call, ActivationKind kind, Launcher& launcher) {
  launch_elements(call.input(0), call.input(1), call.output(0), 1, 0, slope, kind, launcher);
}

void cast_view(const Tensor& x, const Tensor& y, Launcher& launcher) { launch_elements(x, {}, y, 1, 0, QUERN_OP_CAST, 0, launcher); }

}  // namespace quern::vulkan
