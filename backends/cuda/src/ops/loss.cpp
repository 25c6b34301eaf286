// cross_entropy, masked_mean, and their gradients.
#include "../kernels/loss.hpp"

#include "strided.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

bool is_backward(const Call& call) { return call.op == QUERN_OP_CROSS_ENTROPY_BACKWARD; }

void emit_entropy(const Call& call, Launcher& launcher) {
  const Tensor& logits = call.input(0);
  const auto column = [](const Tensor& t) {  // as rows of one element
    Tensor rows = t;
    if (t.present()) {
      rows.dims[1] = 1;
      rows.strides[1] = 0;
      rows.rank = 2;
    }
    return rows;
  };
  const bool backward = is_backward(call);
  const Tensor absent, label = column(call.input(1)), lse = column(backward ? call.input(2) : call.output(1)),
                       loss = backward ? absent : column(call.output(0)), dloss = backward ? column(call.input(3)) : absent;
  CrossEntropyParams p{};
  p.rows = walk_rows(logits, {{logits, p.logits},
                              {label, p.label},
                              {loss, p.loss},
                              {lse, p.lse},
                              {dloss, p.dloss},
                              {backward ? call.output(0) : absent, p.dlogits}});
  p.n = logits.dims[1];
  p.ignore = call.integer(QUERN_KEY_IGNORE);
  p.smoothing = static_cast<float>(call.real(QUERN_KEY_SMOOTHING));
  p.z_loss = static_cast<float>(call.real(QUERN_KEY_Z_LOSS));
  p.faults = launcher.faults();
  if (backward) launcher.launch(kernels::cross_entropy_backward, {p.rows.count, 1, 1}, 256, p);
  else launcher.launch(kernels::cross_entropy, {p.rows.count, 1, 1}, p.n > 4096 ? 1024 : 256, p);
}

std::uint64_t scratch_mean(const Call&) { return std::uint64_t{2} * masked_blocks * sizeof(double); }

void emit_mean(const Call& call, Launcher& launcher) {
  MaskedMeanParams p{};
  p.shape = walk_elements(call.input(0), {{call.input(0), p.x}, {call.input(1), p.mask}});
  p.parts = call.scratch;
  p.y = call.output(0).data;
  p.count = call.output(1).data;
  launcher.launch(kernels::masked_parts, {masked_blocks, 1, 1}, 256, p);
  launcher.launch(kernels::masked_total, {1, 1, 1}, 32, p);
}

void emit_mean_backward(const Call& call, Launcher& launcher) {
  MaskedMeanBackwardParams p{};
  p.shape = walk_elements(call.output(0), {{call.input(0), p.mask}, {call.output(0), p.dx}});
  p.count = call.input(1).data;
  p.dy = call.input(2).data;
  launcher.launch(kernels::masked_mean_backward, launcher.spread(p.shape.count), 256, p);
}

constexpr Op table[] = {{QUERN_OP_CROSS_ENTROPY, "cross_entropy.cuda", nullptr, emit_entropy},
                        {QUERN_OP_CROSS_ENTROPY_BACKWARD, "cross_entropy_backward.cuda", nullptr, emit_entropy},
                        {QUERN_OP_MASKED_MEAN, "masked_mean.cuda", nullptr, emit_mean, scratch_mean},
                        {QUERN_OP_MASKED_MEAN_BACKWARD, "masked_mean_backward.cuda", nullptr, emit_mean_backward}};

}  // namespace

const std::span<const Op> loss_ops = table;

}  // namespace quern::cuda
