// y = alpha x + beta. Kernel: unary.
#include "elementwise.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_scale(const Call& call, Launcher& launcher) {
  launch_unary(call, static_cast<float>(call.real(QUERN_KEY_ALPHA)), static_cast<float>(call.real(QUERN_KEY_BETA)), launcher);
}

}  // namespace

const Op scale_op{QUERN_OP_SCALE, "scale.cuda", nullptr, emit_scale};

}  // namespace quern::cuda
