// y = x^2. NaN stays NaN.
#include "map_rows.hpp"

namespace quern::cpu {
namespace {

void run_sqr(const Call& call, Context& context) noexcept {
  map_elements(call.input(0), call.output(0), context, [](float x) { return x * x; });
}

constexpr Kernel kernels_sqr[] = {{QUERN_OP_SQR, "sqr.portable", Isa::baseline, accepts_any, run_sqr}};

}  // namespace

const std::span<const Kernel> sqr_kernels = kernels_sqr;

}  // namespace quern::cpu
