// How many elements are equal, bit by bit. Kernel: reduce.
#include "reduce.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_count_equal(const Call& call, Launcher& launcher) { launch_whole_reduction(call, whole_equal, launcher); }

}  // namespace

const Op count_equal_op = offer(QUERN_OP_COUNT_EQUAL, "count_equal.vulkan", refuse_whole_count, emit_count_equal, scratch_whole);

}  // namespace quern::vulkan
