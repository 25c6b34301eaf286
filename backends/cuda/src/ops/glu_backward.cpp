// Gradients of glu.
#include "../kernels/elementwise.hpp"

#include "glu.hpp"
#include "strided.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_glu_backward(const Call& call, Launcher& launcher) {
  const Tensor &gate = call.input(0), &up = call.input(1), &dy = call.input(2), &dgate = call.output(0), &dup = call.output(1);
  const bool swapped = call.integer(QUERN_KEY_SWAPPED) != 0, split = up.present();
  GluBackwardParams p{};
  p.shape = walk_steps(dy, {{split ? gate : half_of(gate, swapped), p.gate},
                            {split ? up : half_of(gate, !swapped), p.up},
                            {dy, p.dy},
                            {split ? dgate : half_of(dgate, swapped), p.dgate},
                            {split ? dup : half_of(dgate, !swapped), p.dup}});
  read_glu_attributes(call, p);
  launcher.launch(kernels::glu_backward, launcher.spread(p.shape.count), 256, p);
}

}  // namespace

const Op glu_backward_op{QUERN_OP_GLU_BACKWARD, "glu_backward.cuda", nullptr, emit_glu_backward};

}  // namespace quern::cuda
