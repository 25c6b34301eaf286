// The k largest of each row, best first. Kernel: sort.
#include "sampling.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

std::string refuse_top_k(const Call& call) { return check_logits(call.input(0)); }
void emit_top_k(const Call& call, Launcher& launcher) { launch_ranked(call, false, launcher); }

}  // namespace

const Op top_k_op = offer(QUERN_OP_TOP_K, "top_k.vulkan", refuse_top_k, emit_top_k, scratch_ranking, true);

}  // namespace quern::vulkan
