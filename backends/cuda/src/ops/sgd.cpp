// A step of SGD, with or without momentum.
#include "optimiser.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_sgd(const Call& call, Launcher& launcher) {
  OptimiserParams p = optimiser_params(call, {}, {}, launcher);
  p.lr = call.input(1).data;
  p.scale = call.input(2).data;
  p.momentum = static_cast<float>(call.real(QUERN_KEY_MOMENTUM));
  launcher.launch(kernels::sgd, launcher.spread(p.shape.count), 256, p);
}

}  // namespace

const Op sgd_op{QUERN_OP_SGD, "sgd.cuda", nullptr, emit_sgd, nullptr, true};

}  // namespace quern::cuda
