// y = |x|. Kernel: elementwise.
#include "elementwise.hpp"
#include "tables.hpp"

namespace quern::vulkan {

const Op abs_op = offer(QUERN_OP_ABS, "abs.vulkan", nullptr, emit_unary);

}  // namespace quern::vulkan
