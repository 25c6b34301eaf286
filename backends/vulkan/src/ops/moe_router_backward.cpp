// dlogits of moe_router.
#include "expert_view.hpp"
#include "tables.hpp"
#include "../shaders/modes.h"

namespace quern::vulkan {
namespace {

void emit_moe_router_backward(const Call& call, Launcher& launcher) {
  const Tensor &logits = call.input(0), &id = call.input(2);
  ExpertsBackwardParams p{};
  p.a = expert_view(logits);
  p.dy = expert_view(call.input(3));
  p.da = expert_view(call.output(0));
  p.id = id.data;
  p.predicate = call.predicate.data;
  p.faults = launcher.faults();
  p.id_row = id.strides[0];
  p.id_step = static_cast<int>(id.strides[1]);
  p.tokens = static_cast<uint>(logits.dims[0]);
  p.used = static_cast<uint>(id.dims[1]);
  p.experts = static_cast<int>(logits.dims[1]);
  p.accumulate = call.flag(QUERN_KEY_RENORMALISE) ? 1 : 0;
  p.scale = call.number(QUERN_KEY_SCALE);
  launcher.launch("experts_backward", launcher.item_threads(), launcher.spread(p.tokens), p,
                  {experts_dlogits, static_cast<std::int32_t>(call.integer(QUERN_KEY_KIND))});
}

}  // namespace

const Op moe_router_backward_op =
    offer(QUERN_OP_MOE_ROUTER_BACKWARD, "moe_router_backward.vulkan", nullptr, emit_moe_router_backward, nullptr, true);

}  // namespace quern::vulkan
