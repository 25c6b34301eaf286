// dlogits of moe_router.
#include "moe_router.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_moe_router_backward(const Call& call, Launcher& launcher) {
  const Tensor& logits = call.input(0);
  RouterParams p = router_params(call, launcher);
  p.rows = walk_rows(logits, {{logits, p.logits}, {call.input(2), p.id}, {call.input(3), p.dweight}, {call.output(0), p.dlogits}});
  launcher.launch(kernels::moe_router_backward, {(p.rows.count + 7) / 8, 1, 1}, 256, p);
}

}  // namespace

const Op moe_router_backward_op{QUERN_OP_MOE_ROUTER_BACKWARD, "moe_router_backward.cuda", refuse_router, emit_moe_router_backward};

}  // namespace quern::cuda
