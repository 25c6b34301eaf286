// The mean of the elements that a mask lets count, and how many they are.
#include "../kernels/loss.hpp"

#include "strided.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

std::uint64_t scratch_masked_mean(const Call&) { return std::uint64_t{2} * masked_blocks * sizeof(double); }

void emit_masked_mean(const Call& call, Launcher& launcher) {
  MaskedMeanParams p{};
  p.shape = walk_elements(call.input(0), {{call.input(0), p.x}, {call.input(1), p.mask}});
  p.parts = call.scratch;
  p.y = call.output(0).data;
  p.count = call.output(1).data;
  launcher.launch(kernels::masked_parts, {masked_blocks, 1, 1}, 256, p);
  launcher.launch(kernels::masked_total, {1, 1, 1}, 32, p);
}

}  // namespace

const Op masked_mean_op{QUERN_OP_MASKED_MEAN, "masked_mean.cuda", nullptr, emit_masked_mean, scratch_masked_mean};

}  // namespace quern::cuda
