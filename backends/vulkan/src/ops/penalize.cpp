// Logits changed for the tokens of a row's history. Kernel: logits.
#include "sampling.hpp"
#include "tables.hpp"

namespace quern::vulkan {

const Op penalize_op = offer(QUERN_OP_PENALIZE, "penalize.vulkan", refuse_logits, emit_logits, nullptr, true);

}  // namespace quern::vulkan
