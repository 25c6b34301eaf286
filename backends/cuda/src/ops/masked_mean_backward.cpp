// dx of masked_mean.
#include "../kernels/loss.hpp"

#include "strided.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_masked_mean_backward(const Call& call, Launcher& launcher) {
  MaskedMeanBackwardParams p{};
  p.shape = walk_elements(call.output(0), {{call.input(0), p.mask}, {call.output(0), p.dx}});
  p.count = call.input(1).data;
  p.dy = call.input(2).data;
  launcher.launch(kernels::masked_mean_backward, launcher.spread(p.shape.count), 256, p);
}

}  // namespace

const Op masked_mean_backward_op{QUERN_OP_MASKED_MEAN_BACKWARD, "masked_mean_backward.cuda", nullptr, emit_masked_mean_backward};

}  // namespace quern::cuda
