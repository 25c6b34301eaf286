// y = sqrt(x). NaN stays NaN.
#include "map_rows.hpp"

#include <cmath>

namespace quern::cpu {
namespace {

void run_sqrt(const Call& call, Context& context) noexcept {
  map_elements(call.input(0), call.output(0), context, [](float x) { return std::sqrt(x); });
}

constexpr Kernel kernels_sqrt[] = {{QUERN_OP_SQRT, "sqrt.portable", Isa::baseline, accepts_any, run_sqrt}};

}  // namespace

const std::span<const Kernel> sqrt_kernels = kernels_sqrt;

}  // namespace quern::cpu
