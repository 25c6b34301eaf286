// A step of AdamW: w, m, v and a master copy.
#include "optimiser.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_adamw(const Call& call, Launcher& launcher) {
  OptimiserParams p = optimiser_params(call, call.output(2), call.output(3), launcher);
  p.step = call.input(1).data;
  p.lr = call.input(2).data;
  p.scale = call.input(3).data;
  p.beta1 = call.real(QUERN_KEY_BETA1);
  p.beta2 = call.real(QUERN_KEY_BETA2);
  p.epsilon = call.real(QUERN_KEY_EPSILON);
  launcher.launch(kernels::adamw, launcher.spread(p.shape.count), 256, p);
}

}  // namespace

const Op adamw_op{QUERN_OP_ADAMW, "adamw.cuda", nullptr, emit_adamw, nullptr, true};

}  // namespace quern::cuda
