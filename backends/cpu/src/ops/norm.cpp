// The root of the sum of all squares; 0 of none.
#include "reduce_all.hpp"

#include <cmath>

namespace quern::cpu {
namespace {

void run_norm(const Call& call, Context& context) noexcept {
  store_scalar(call.output(0), 0, static_cast<float>(std::sqrt(sum_all(call.input(0), context, [](float x) { return x * x; }))));
}

constexpr Kernel kernels_norm[] = {{QUERN_OP_NORM, "norm.portable", Isa::baseline, accepts_any, run_norm, scratch_reduce_all}};

}  // namespace

const std::span<const Kernel> norm_kernels = kernels_norm;

}  // namespace quern::cpu
