// The experts of each row, and their weights.
#include "tables.hpp"

namespace quern::vulkan {
namespace {

std::string refuse_moe_router(const Call& call) { return check_contiguous(call.input(1)); }
void emit_moe_router(const Call& call, Launcher& launcher) {
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

}  // namespace

const Op moe_router_op = offer(QUERN_OP_MOE_ROUTER, "moe_router.vulkan", refuse_moe_router, emit_moe_router, nullptr, true);

}  // namespace quern::vulkan
