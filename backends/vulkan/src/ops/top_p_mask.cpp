// Logits that a filter keeps, -inf elsewhere: the fewest best whose probabilities reach p. Kernel: sort.
#include "sampling.hpp"
#include "tables.hpp"
#include "../shaders/modes.h"

namespace quern::vulkan {
namespace {

void emit_top_p_mask(const Call& call, Launcher& launcher) { launch_ranking(call, call.output(0), {}, logits_top_p, launcher); }

}  // namespace

const Op top_p_mask_op = offer(QUERN_OP_TOP_P_MASK, "top_p_mask.vulkan", check_logits_and_settings, emit_top_p_mask, scratch_ranking, true);

}  // namespace quern::vulkan
