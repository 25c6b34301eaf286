// dx of masked_mean.
#include "loss.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_masked_mean_backward(const Call& call, Launcher& launcher) {
  const Tensor& dx = call.output(0);
  LossParams p = loss_params(call, call.input(0), call.input(2), call.input(1), launcher);
  p.y = dx.data;
  p.y_step = static_cast<int>(dx.strides[0]);
  p.n = static_cast<uint>(dx.dims[0]);
  launcher.launch("loss", launcher.item_threads(), launcher.spread(p.n), p, {loss_masked_mean_backward});
}

}  // namespace

const Op masked_mean_backward_op = offer(QUERN_OP_MASKED_MEAN_BACKWARD, "masked_mean_backward.vulkan", nullptr, emit_masked_mean_backward);

}  // namespace quern::vulkan
