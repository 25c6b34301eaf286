// Logits that a filter keeps, -inf elsewhere: the k best. Kernel: sort.
#include "sampling.hpp"
#include "tables.hpp"
#include "../shaders/modes.h"

namespace quern::vulkan {
namespace {

void emit_top_k_mask(const Call& call, Launcher& launcher) { launch_ranking(call, call.output(0), {}, logits_top_k, launcher); }

}  // namespace

const Op top_k_mask_op = offer(QUERN_OP_TOP_K_MASK, "top_k_mask.vulkan", check_logits_and_settings, emit_top_k_mask, scratch_ranking, true);

}  // namespace quern::vulkan
