// y = sqrt(x). Kernel: elementwise.
#include "elementwise.hpp"
#include "tables.hpp"

namespace quern::vulkan {

const Op sqrt_op = offer(QUERN_OP_SQRT, "sqrt.vulkan", nullptr, emit_unary);

}  // namespace quern::vulkan
