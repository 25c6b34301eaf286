// y = alpha x + beta. Kernel: elementwise.
#include "elementwise.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_scale(const Call& call, Launcher& launcher) {
  launch_unary(call, call.number(QUERN_KEY_ALPHA), call.number(QUERN_KEY_BETA), launcher);
}

}  // namespace

const Op scale_op = offer(QUERN_OP_SCALE, "scale.vulkan", nullptr, emit_scale);

}  // namespace quern::vulkan
