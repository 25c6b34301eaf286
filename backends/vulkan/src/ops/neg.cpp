// y = -x. Kernel: elementwise.
#include "elementwise.hpp"
#include "tables.hpp"

namespace quern::vulkan {

const Op neg_op = offer(QUERN_OP_NEG, "neg.vulkan", nullptr, emit_unary);

}  // namespace quern::vulkan
