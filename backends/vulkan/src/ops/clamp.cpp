// y is x, held between min and max. Kernel: elementwise.
#include "elementwise.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_clamp(const Call& call, Launcher& launcher) {
  launch_unary(call, call.number(QUERN_KEY_MIN), call.number(QUERN_KEY_MAX), launcher);
}

}  // namespace

const Op clamp_op = offer(QUERN_OP_CLAMP, "clamp.vulkan", nullptr, emit_clamp);

}  // namespace quern::vulkan
