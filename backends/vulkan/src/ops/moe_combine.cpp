// The weighted sum of a token's experts.
#include "tables.hpp"

namespace quern::vulkan {
namespace {

std::string refuse_moe_combine(const Call& call) {
  const Tensor& x = call.input(0);
  return first_of({check_contiguous(call.input(1)),
                   x.elements() >= std::int64_t{1} << 31 ? concat(describe(x), "; fewer than 2^31 elements are taken") : ""});
}
void emit_moe_combine(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), &y = call.output(0);
  CombineParams p{};
  p.x = x.data;
  p.weight = call.input(1).data;
  p.y = y.data;
  p.predicate = call.predicate.data;
  p.x_row = x.strides[0];
  p.x_used = x.strides[1];
  p.y_row = y.strides[0];
  p.rows = static_cast<uint>(x.dims[0]);
  p.used = static_cast<uint>(x.dims[1]);
  p.n = static_cast<uint>(x.dims[2]);
  p.x_dtype = static_cast<int>(x.dtype);
  p.y_dtype = static_cast<int>(y.dtype);
  p.x_step = static_cast<int>(x.strides[2]);
  p.y_step = static_cast<int>(y.strides[1]);
  launcher.launch("moe_combine", launcher.item_threads(), launcher.spread(y.elements()), p);
}

}  // namespace

const Op moe_combine_op = offer(QUERN_OP_MOE_COMBINE, "moe_combine.vulkan", refuse_moe_combine, emit_moe_combine, nullptr, true);

}  // namespace quern::vulkan
