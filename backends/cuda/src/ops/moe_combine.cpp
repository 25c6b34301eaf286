// The weighted sum of a token's experts.
#include "../kernels/moe.hpp"

#include "strided.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_moe_combine(const Call& call, Launcher& launcher) {
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

}  // namespace

const Op moe_combine_op{QUERN_OP_MOE_COMBINE, "moe_combine.cuda", nullptr, emit_moe_combine};

}  // namespace quern::cuda
