// Logits changed by an amount for a few tokens. Kernel: logits.
#include "sampling.hpp"
#include "tables.hpp"

namespace quern::vulkan {

const Op logit_bias_op = offer(QUERN_OP_LOGIT_BIAS, "logit_bias.vulkan", refuse_logits, emit_logits, nullptr, true);

}  // namespace quern::vulkan
