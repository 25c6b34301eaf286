// y = f(gate) * up, two inputs or two halves of one.
#include "../kernels/elementwise.hpp"

#include "glu.hpp"
#include "strided.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_glu(const Call& call, Launcher& launcher) {
  const Tensor &gate = call.input(0), &up = call.input(1), &y = call.output(0);
  const bool swapped = call.integer(QUERN_KEY_SWAPPED) != 0, split = up.present();
  GluParams p{};
  p.shape = walk_steps(y, {{split ? gate : half_of(gate, swapped), p.gate}, {split ? up : half_of(gate, !swapped), p.up}, {y, p.y}});
  read_glu_attributes(call, p);
  launcher.launch(kernels::glu, launcher.spread(p.shape.count), 256, p);
}

}  // namespace

const Op glu_op{QUERN_OP_GLU, "glu.cuda", nullptr, emit_glu};

}  // namespace quern::cuda
