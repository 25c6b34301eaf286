// y = a + alpha b, b broadcast. Kernel: elementwise.
#include "elementwise.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_add(const Call& call, Launcher& launcher) { launch_binary(call, call.number(QUERN_KEY_ALPHA), launcher); }

}  // namespace

const Op add_op = offer(QUERN_OP_ADD, "add.vulkan", nullptr, emit_add);

}  // namespace quern::vulkan
