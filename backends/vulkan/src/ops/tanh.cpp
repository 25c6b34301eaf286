// y = tanh(x). Kernel: elementwise.
#include "elementwise.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_tanh(const Call& call, Launcher& launcher) { launch_activation(call, kind_tanh, launcher); }

}  // namespace

const Op tanh_op = offer(QUERN_OP_TANH, "tanh.vulkan", nullptr, emit_tanh);

}  // namespace quern::vulkan
