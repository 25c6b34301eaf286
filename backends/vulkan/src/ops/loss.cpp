// See loss.hpp.
#include "loss.hpp"

#include <algorithm>

namespace quern::vulkan {

LossParams loss_params(const Call& call, const Tensor& label, const Tensor& loss, const Tensor& lse, Launcher& launcher) {
  LossParams p{};
  p.label = label.data;
  p.loss = loss.data;
  p.lse = lse.data;
  p.predicate = call.predicate.data;
  p.faults = launcher.faults();
  p.label_step = static_cast<int>(label.strides[0]);
  p.loss_step = static_cast<int>(loss.strides[0]);
  p.lse_step = static_cast<int>(lse.strides[0]);
  return p;
}

void launch_loss(const Call& call, const Tensor& loss, const Tensor& lse, const Tensor& y, std::int32_t op, Launcher& launcher) {
  const Tensor& x = call.input(0);
  LossParams p = loss_params(call, call.input(1), loss, lse, launcher);
  p.x = x.data;
  p.x_dtype = static_cast<int>(x.dtype);
  p.x_row = x.strides[0];
  p.x_step = static_cast<int>(x.strides[1]);
  if (y.present()) {
    p.y = y.data;
    p.y_dtype = static_cast<int>(y.dtype);
    p.y_row = y.strides[0];
    p.y_step = static_cast<int>(y.strides[1]);
  }
  p.rows = static_cast<uint>(x.dims[0]);
  p.n = static_cast<uint>(x.dims[1]);
  p.ignored = static_cast<int>(std::clamp<std::int64_t>(call.integer(QUERN_KEY_IGNORE), INT32_MIN, INT32_MAX));
  p.smoothing = call.number(QUERN_KEY_SMOOTHING);
  p.z_loss = call.number(QUERN_KEY_Z_LOSS);
  launcher.launch("loss", launcher.row_threads(x.dims[1]), launcher.rows(x.dims[0]), p, {op});
}

}  // namespace quern::vulkan
