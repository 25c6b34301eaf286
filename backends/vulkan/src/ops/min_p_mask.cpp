// Logits that a filter keeps, -inf elsewhere: those of at least p times the best one's probability. Kernel: sort.
#include "sampling.hpp"
#include "tables.hpp"
#include "../shaders/modes.h"

namespace quern::vulkan {
namespace {

void emit_min_p_mask(const Call& call, Launcher& launcher) { launch_ranking(call, call.output(0), {}, logits_min_p, launcher); }

}  // namespace

const Op min_p_mask_op = offer(QUERN_OP_MIN_P_MASK, "min_p_mask.vulkan", check_logits_and_settings, emit_min_p_mask, scratch_ranking, true);

}  // namespace quern::vulkan
