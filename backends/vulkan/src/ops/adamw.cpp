// A step of AdamW: w, m, v and a master copy. Kernel: optimiser.
#include "optimiser.hpp"
#include "tables.hpp"

#include <cmath>

namespace quern::vulkan {
namespace {

void emit_adamw(const Call& call, Launcher& launcher) {
  OptimiserParams p{};
  p.step = call.input(1).data;
  p.lr = call.input(2).data;
  p.scale = call.input(3).data;
  const double beta1 = call.real(QUERN_KEY_BETA1), beta2 = call.real(QUERN_KEY_BETA2);
  p.beta1 = static_cast<float>(beta1);
  p.rest1 = static_cast<float>(1.0 - beta1);
  p.beta2 = static_cast<float>(beta2);
  p.rest2 = static_cast<float>(1.0 - beta2);
  p.log_beta1 = static_cast<float>(std::log(beta1));
  p.log_beta2 = static_cast<float>(std::log(beta2));
  p.epsilon = call.number(QUERN_KEY_EPSILON);
  p.weight_decay = call.number(QUERN_KEY_WEIGHT_DECAY);
  launch_step(call, call.output(1), call.output(2), call.output(3), p, 0, launcher);
}

}  // namespace

const Op adamw_op = offer(QUERN_OP_ADAMW, "adamw.vulkan", check_row_parts, emit_adamw, nullptr, true);

}  // namespace quern::vulkan
