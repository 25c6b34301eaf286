// y is x^2 above 0, else 0. Kernel: elementwise.
#include "elementwise.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_relu_sqr(const Call& call, Launcher& launcher) { launch_activation(call, kind_relu_sqr, launcher); }

}  // namespace

const Op relu_sqr_op = offer(QUERN_OP_RELU_SQR, "relu_sqr.vulkan", nullptr, emit_relu_sqr);

}  // namespace quern::vulkan
