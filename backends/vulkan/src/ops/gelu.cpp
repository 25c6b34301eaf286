// y = x Phi(x), exactly or as one of its two approximations. Kernel: elementwise.
#include "elementwise.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_gelu(const Call& call, Launcher& launcher) { launch_activation(call, gelu_kind(call), launcher); }

}  // namespace

const Op gelu_op = offer(QUERN_OP_GELU, "gelu.vulkan", nullptr, emit_gelu);

}  // namespace quern::vulkan
