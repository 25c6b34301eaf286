// The mean of all elements; NaN of none.
#include "reduce_all.hpp"

namespace quern::cpu {
namespace {

void run_mean(const Call& call, Context& context) noexcept {
  const double sum = sum_all(call.input(0), context, [](float x) { return x; });
  store_scalar(call.output(0), 0, static_cast<float>(sum / static_cast<double>(call.input(0).elements())));
}

constexpr Kernel kernels_mean[] = {{QUERN_OP_MEAN, "mean.portable", Isa::baseline, accepts_any, run_mean, scratch_reduce_all}};

}  // namespace

const std::span<const Kernel> mean_kernels = kernels_mean;

}  // namespace quern::cpu
