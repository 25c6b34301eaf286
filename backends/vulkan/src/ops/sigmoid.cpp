// y = 1 / (1 + exp(-x)). Kernel: elementwise.
#include "elementwise.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_sigmoid(const Call& call, Launcher& launcher) { launch_activation(call, kind_sigmoid, launcher); }

}  // namespace

const Op sigmoid_op = offer(QUERN_OP_SIGMOID, "sigmoid.vulkan", nullptr, emit_sigmoid);

}  // namespace quern::vulkan
