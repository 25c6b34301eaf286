// Where the largest of each row is. Kernel: reduce.
#include "reduce.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_argmax(const Call& call, Launcher& launcher) { launch_row_reduction(call, reduce_argmax, launcher); }

}  // namespace

const Op argmax_op = offer(QUERN_OP_ARGMAX, "argmax.vulkan", nullptr, emit_argmax, nullptr, true);

}  // namespace quern::vulkan
