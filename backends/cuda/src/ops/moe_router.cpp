// The experts of each row, and their weights.
#include "moe_router.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_moe_router(const Call& call, Launcher& launcher) {
  const Tensor& logits = call.input(0);
  RouterParams p = router_params(call, launcher);
  p.rows = walk_rows(logits, {{logits, p.logits}, {call.output(0), p.id}, {call.output(1), p.weight}});
  launcher.launch(kernels::moe_router, {(p.rows.count + 7) / 8, 1, 1}, 256, p);
}

}  // namespace

const Op moe_router_op{QUERN_OP_MOE_ROUTER, "moe_router.cuda", refuse_router, emit_moe_router};

}  // namespace quern::cuda
