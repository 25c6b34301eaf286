// A step of SGD, with or without momentum. Kernel: optimiser.
#include "optimiser.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_sgd(const Call& call, Launcher& launcher) {
  OptimiserParams p{};
  p.lr = call.input(1).data;
  p.scale = call.input(2).data;
  p.momentum = call.number(QUERN_KEY_MOMENTUM);
  p.weight_decay = call.number(QUERN_KEY_WEIGHT_DECAY);
  launch_step(call, call.output(1), {}, {}, p, 1, launcher);
}

}  // namespace

const Op sgd_op = offer(QUERN_OP_SGD, "sgd.vulkan", check_row_parts, emit_sgd, nullptr, true);

}  // namespace quern::vulkan
