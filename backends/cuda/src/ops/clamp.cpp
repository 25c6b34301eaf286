// y is x, held between min and max. Kernel: unary.
#include "elementwise.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_clamp(const Call& call, Launcher& launcher) {
  launch_unary(call, static_cast<float>(call.real(QUERN_KEY_MIN)), static_cast<float>(call.real(QUERN_KEY_MAX)), launcher);
}

}  // namespace

const Op clamp_op{QUERN_OP_CLAMP, "clamp.cuda", nullptr, emit_clamp};

}  // namespace quern::cuda
