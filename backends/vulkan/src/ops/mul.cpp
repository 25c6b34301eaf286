// y = a b, b broadcast. Kernel: elementwise.
#include "elementwise.hpp"
#include "tables.hpp"

namespace quern::vulkan {

const Op mul_op = offer(QUERN_OP_MUL, "mul.vulkan", nullptr, emit_binary);

}  // namespace quern::vulkan
