// y = a - b, b broadcast. Kernel: elementwise.
#include "elementwise.hpp"
#include "tables.hpp"

namespace quern::vulkan {

const Op sub_op = offer(QUERN_OP_SUB, "sub.vulkan", nullptr, emit_binary);

}  // namespace quern::vulkan
