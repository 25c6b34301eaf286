// y = a / b, b broadcast. Kernel: elementwise.
#include "elementwise.hpp"
#include "tables.hpp"

namespace quern::vulkan {

const Op div_op = offer(QUERN_OP_DIV, "div.vulkan", nullptr, emit_binary);

}  // namespace quern::vulkan
