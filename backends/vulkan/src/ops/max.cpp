// The largest of each row. Kernel: reduce.
#include "reduce.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_max(const Call& call, Launcher& launcher) { launch_row_reduction(call, reduce_max, launcher); }

}  // namespace

const Op max_op = offer(QUERN_OP_MAX, "max.vulkan", nullptr, emit_max);

}  // namespace quern::vulkan
