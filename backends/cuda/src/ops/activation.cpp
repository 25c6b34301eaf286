// See activation.hpp.
#include "activation.hpp"

#include "../kernels/elementwise.hpp"
#include "strided.hpp"

namespace quern::cuda {

void launch_activation(const Call& call, std::int64_t kind, Launcher& launcher) {
  UnaryParams p{};
  p.shape = walk_steps(call.output(0), {{call.input(0), p.x}, {call.output(0), p.y}});
  p.op = static_cast<int>(call.op);
  p.a = static_cast<float>(kind);
  launcher.launch(kernels::activation, launcher.spread(p.shape.count), 256, p);
}

void emit_activation(const Call& call, Launcher& launcher) { launch_activation(call, 0, launcher); }

void launch_activation_backward(const Call& call, std::int64_t kind, Launcher& launcher) {
  ActivationBackwardParams p{};
  p.shape = walk_steps(call.output(0), {{call.input(0), p.x}, {call.input(1), p.dy}, {call.output(0), p.dx}});
  p.op = static_cast<int>(call.op);
  p.kind = static_cast<int>(kind);
  launcher.launch(kernels::activation_backward, launcher.spread(p.shape.count), 256, p);
}

void emit_activation_backward(const Call& call, Launcher& launcher) { launch_activation_backward(call, 0, launcher); }

}  // namespace quern::cuda
