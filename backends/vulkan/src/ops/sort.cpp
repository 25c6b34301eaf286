// Each row in order. Kernel: sort.
#include "sampling.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

std::string refuse_sort(const Call& call) { return check_logits(call.input(0)); }
void emit_sort(const Call& call, Launcher& launcher) { launch_ranked(call, !call.flag(QUERN_KEY_DESCENDING), launcher); }

}  // namespace

const Op sort_op = offer(QUERN_OP_SORT, "sort.vulkan", refuse_sort, emit_sort, scratch_ranking, true);

}  // namespace quern::vulkan
