// y = x^2. Kernel: elementwise.
#include "elementwise.hpp"
#include "tables.hpp"

namespace quern::vulkan {

const Op sqr_op = offer(QUERN_OP_SQR, "sqr.vulkan", nullptr, emit_unary);

}  // namespace quern::vulkan
