// y = x / (1 + exp(-x)). Kernel: elementwise.
#include "elementwise.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_silu(const Call& call, Launcher& launcher) { launch_activation(call, kind_silu, launcher); }

}  // namespace

const Op silu_op = offer(QUERN_OP_SILU, "silu.vulkan", nullptr, emit_silu);

}  // namespace quern::vulkan
