// y is x above 0, else 0. Kernel: elementwise.
#include "elementwise.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_relu(const Call& call, Launcher& launcher) { launch_activation(call, kind_relu, launcher); }

}  // namespace

const Op relu_op = offer(QUERN_OP_RELU, "relu.vulkan", nullptr, emit_relu);

}  // namespace quern::vulkan
