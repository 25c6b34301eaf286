// y = |x|. NaN stays NaN.
#include "map_rows.hpp"

#include <cmath>

namespace quern::cpu {
namespace {

void run_abs(const Call& call, Context& context) noexcept {
  map_elements(call.input(0), call.output(0), context, [](float x) { return std::fabs(x); });
}

constexpr Kernel kernels_abs[] = {{QUERN_OP_ABS, "abs.portable", Isa::baseline, accepts_any, run_abs}};

}  // namespace

const std::span<const Kernel> abs_kernels = kernels_abs;

}  // namespace quern::cpu
