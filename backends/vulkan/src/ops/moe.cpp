// moe_router and moe_combine.
#include "tables.hpp"

namespace quern::vulkan {
namespace {

std::string refuse_router(const Call& call) { return check_contiguous(call.input(1)); }
void emit_router(const Call& call, Launcher& launcher) {
  const Tensor &logits = call.input(0), &id = call.output(0), &weight = call.output(1);
  RouterParams p{};
  p.logits = logits.data;
  p.bias = call.input(1).data;
  p.id = id.data;
  p.weight = weight.data;
  p.predicate = call.predicate.data;
  p.logits_stride = logits.strides[0];
  p.id_stride = id.strides[0];
  p.weight_stride = weight.strides[0];
  p.logits_step = static_cast<int>(logits.strides[1]);
  p.id_step = static_cast<int>(id.strides[1]);
  p.weight_step = static_cast<int>(weight.strides[1]);
  p.rows = static_cast<uint>(logits.dims[0]);
  p.experts = static_cast<uint>(logits.dims[1]);
  p.used = static_cast<uint>(id.dims[1]);
  p.renormalise = call.flag(QUERN_KEY_RENORMALISE) ? 1 : 0;
  p.scale = call.number(QUERN_KEY_SCALE);
  launcher.launch("moe_router", launcher.item_threads(), launcher.spread(p.rows), p,
                  {static_cast<std::int32_t>(call.integer(QUERN_KEY_KIND))});
}

std::string refuse_combine(const Call& call) {
  const Tensor& x = call.input(0);
  return first_of({check_contiguous(call.input(1)),
                   x.elements() >= std::int64_t{1} << 31 ? concat(describe(x), "; fewer than 2^31 elements are taken") : ""});
}
void emit_combine(const Call& call, Launcher& launcher) {
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

constexpr Op moe_table[] = {offer(QUERN_OP_MOE_ROUTER, "moe_router.vulkan", refuse_router, emit_router, nullptr, true),
                            offer(QUERN_OP_MOE_COMBINE, "moe_combine.vulkan", refuse_combine, emit_combine, nullptr, true)};

}  // namespace

const std::span<const Op> moe_ops = moe_table;

}  // namespace quern::vulkan
