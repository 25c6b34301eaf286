// dx of softmax, by y and dy.
#include "../kernels/softmax.hpp"

#include "strided.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_softmax_backward(const Call& call, Launcher& launcher) {
  const Tensor& dx = call.output(0);
  SoftmaxBackwardParams p{};
  p.rows = walk_rows(dx, {{call.input(0), p.y}, {call.input(1), p.dy}, {dx, p.dx}});
  p.n = dx.last();
  p.scale = static_cast<float>(call.real(QUERN_KEY_SCALE));
  launcher.launch(kernels::softmax_backward, {p.rows.count, 1, 1}, 256, p);
}

}  // namespace

const Op softmax_backward_op{QUERN_OP_SOFTMAX_BACKWARD, "softmax_backward.cuda", nullptr, emit_softmax_backward};

}  // namespace quern::cuda
