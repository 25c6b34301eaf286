// y = x / (1 + |x|).
#include "../kernels/elementwise.hpp"

#include "strided.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_softsign(const Call& call, Launcher& launcher) {
  UnaryParams p{};
  p.shape = walk_elements(call.output(0), {{call.input(0), p.x}, {call.output(0), p.y}});
  launcher.launch(kernels::softsign, launcher.spread(p.shape.count), 256, p);
}

}  // namespace

const Op softsign_op{QUERN_OP_SOFTSIGN, "softsign.cuda", nullptr, emit_softsign};

}  // namespace quern::cuda
