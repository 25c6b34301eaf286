// The mean of the elements that a mask lets count, and how many they are.
#include "loss.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_masked_mean(const Call& call, Launcher& launcher) {
  const Tensor& x = call.input(0);
  LossParams p = loss_params(call, call.input(1), call.output(0), call.output(1), launcher);
  p.x = x.data;
  p.x_dtype = QUERN_F32;
  p.x_step = static_cast<int>(x.strides[0]);
  p.n = static_cast<uint>(x.dims[0]);
  launcher.launch("loss", launcher.row_threads(x.dims[0]), {1, 1, 1}, p, {loss_masked_mean});
}

}  // namespace

const Op masked_mean_op = offer(QUERN_OP_MASKED_MEAN, "masked_mean.vulkan", nullptr, emit_masked_mean);

}  // namespace quern::vulkan
