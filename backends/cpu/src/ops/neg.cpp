// y = -x; the sign of zero turns too. NaN stays NaN.
#include "map_rows.hpp"

namespace quern::cpu {
namespace {

void run_neg(const Call& call, Context& context) noexcept {
  map_elements(call.input(0), call.output(0), context, [](float x) { return -x; });
}

constexpr Kernel kernels_neg[] = {{QUERN_OP_NEG, "neg.portable", Isa::baseline, accepts_any, run_neg}};

}  // namespace

const std::span<const Kernel> neg_kernels = kernels_neg;

}  // namespace quern::cpu
