// The sum of all elements; 0 of none.
#include "reduce_all.hpp"

namespace quern::cpu {
namespace {

void run_sum(const Call& call, Context& context) noexcept {
  store_scalar(call.output(0), 0, static_cast<float>(sum_all(call.input(0), context, [](float x) { return x; })));
}

constexpr Kernel kernels_sum[] = {{QUERN_OP_SUM, "sum.portable", Isa::baseline, accepts_any, run_sum, scratch_reduce_all}};

}  // namespace

const std::span<const Kernel> sum_kernels = kernels_sum;

}  // namespace quern::cpu
