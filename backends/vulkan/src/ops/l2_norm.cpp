// y = x / max(sqrt(sum(x^2)), epsilon) a row. Kernel: norm.
#include "norms.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_l2_norm(const Call& call, Launcher& launcher) { launch_norm(call, {}, {}, {}, {}, call.output(0), norm_l2, launcher); }

}  // namespace

const Op l2_norm_op = offer(QUERN_OP_L2_NORM, "l2_norm.vulkan", refuse_norm, emit_l2_norm);

}  // namespace quern::vulkan
