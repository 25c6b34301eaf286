// The norm of several gradients, and whether they are finite.
#include "../kernels/sum.hpp"

#include "strided.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

std::uint64_t scratch_grad_norm(const Call& call) { return call.inputs.size() * squares_blocks * (sizeof(double) + sizeof(int)); }

void emit_grad_norm(const Call& call, Launcher& launcher) {
  SquaresParams p{};
  p.parts = call.scratch;
  p.slots = static_cast<long long>(call.inputs.size() * squares_blocks);
  long long first = 0;
  const auto launch = [&](std::int64_t tensors) {
    p.first = first;
    launcher.launch(kernels::squares, {squares_blocks, tensors, 1}, 256, p);
    first += tensors * squares_blocks;
    p.count = 0;
  };
  for (const Tensor& gradient : call.inputs) {
    if (!is_contiguous(gradient)) continue;
    p.of[p.count++] = {gradient.data, static_cast<int>(gradient.dtype), gradient.elements()};
    if (p.count == most_squares) launch(p.count);
  }
  if (p.count > 0) launch(p.count);
  for (const Tensor& gradient : call.inputs) {
    if (is_contiguous(gradient)) continue;
    p.shape = walk_elements(gradient, {{gradient, p.x}});
    launch(1);
  }
  const NormTotalParams total{call.scratch, call.output(0).data, call.output(1).data, p.slots};
  launcher.launch(kernels::norm_total, {1, 1, 1}, 256, total);
}

}  // namespace

const Op grad_norm_op{QUERN_OP_GRAD_NORM, "grad_norm.cuda", nullptr, emit_grad_norm, scratch_grad_norm};

}  // namespace quern::cuda
