// See elementwise.hpp.
#include "elementwise.hpp"

#include "../kernels/elementwise.hpp"
#include "strided.hpp"

namespace quern::cuda {

void launch_unary(const Call& call, float a, float b, Launcher& launcher) {
  UnaryParams p{};
  p.shape = walk_steps(call.output(0), {{call.input(0), p.x}, {call.output(0), p.y}});
  p.op = static_cast<int>(call.op);
  p.a = a;
  p.b = b;
  launcher.launch(kernels::unary, launcher.spread(p.shape.count), 256, p);
}

void emit_unary(const Call& call, Launcher& launcher) { launch_unary(call, 0, 0, launcher); }

void launch_binary(const Call& call, float alpha, Launcher& launcher) {
  BinaryParams p{};
  p.shape = walk_steps(call.output(0), {{call.input(0), p.a}, {call.input(1), p.b}, {call.output(0), p.y}});
  p.op = static_cast<int>(call.op);
  p.alpha = alpha;
  launcher.launch(kernels::binary, launcher.spread(p.shape.count), 256, p);
}

void emit_binary(const Call& call, Launcher& launcher) { launch_binary(call, 1, launcher); }

}  // namespace quern::cuda
