// moe_router, moe_router_backward, moe_combine.
#include "../kernels/moe.hpp"

#include "strided.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

bool is_backward(const Call& call) { return call.op == QUERN_OP_MOE_ROUTER_BACKWARD; }

std::string refuse_router(const Call& call) { return check_contiguous(call.input(1)); }

void emit_router(const Call& call, Launcher& launcher) {
  const Tensor absent, &logits = call.input(0);
  RouterParams p{};
  if (is_backward(call))
    p.rows = walk_rows(logits, {{logits, p.logits}, {call.input(2), p.id}, {call.input(3), p.dweight}, {call.output(0), p.dlogits}});
  else p.rows = walk_rows(logits, {{logits, p.logits}, {call.output(0), p.id}, {call.output(1), p.weight}});
  p.bias = call.input(1).data;
  p.experts = logits.dims[1];
  p.used = call.integer(QUERN_KEY_USED);
  p.sigmoid = call.integer(QUERN_KEY_KIND) == 1;
  p.renormalise = call.integer(QUERN_KEY_RENORMALISE) != 0;
  p.scale = static_cast<float>(call.real(QUERN_KEY_SCALE));
  p.faults = launcher.faults();
  launcher.launch(is_backward(call) ? kernels::moe_router_backward : kernels::moe_router, {(p.rows.count + 7) / 8, 1, 1}, 256, p);
}

void emit_combine(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), &weight = call.input(1), &y = call.output(0);
  Tensor first = x, share = weight;  // of the first expert, in the shape of y
  first.rank = 2;
  first.dims[1] = x.dims[2];
  first.strides[1] = x.strides[2];
  share.dims[1] = 1;
  CombineParams p{};
  p.shape = walk_elements(y, {{first, p.x}, {share, p.weight}, {y, p.y}});
  p.x_next = x.strides[1];
  p.weight_next = weight.strides[1];
  p.used = x.dims[1];
  launcher.launch(kernels::moe_combine, launcher.spread(p.shape.count), 256, p);
}

constexpr Op table[] = {{QUERN_OP_MOE_ROUTER, "moe_router.cuda", refuse_router, emit_router},
                        {QUERN_OP_MOE_ROUTER_BACKWARD, "moe_router_backward.cuda", refuse_router, emit_router},
                        {QUERN_OP_MOE_COMBINE, "moe_combine.cuda", nullptr, emit_combine}};

}  // namespace

const std::span<const Op> moe_ops = table;

}  // namespace quern::cuda
