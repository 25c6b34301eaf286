// neg, sqr, sqrt, abs and clamp: y in f32 with one rounding at the store. NaN stays NaN, neg keeps the sign of zero.
#include "map_rows.hpp"

#include <cmath>

namespace quern::cpu {
namespace {

void run_neg(const Call& call, Context& context) noexcept {
  map_elements(call.input(0), call.output(0), context, [](float x) { return -x; });
}
void run_sqr(const Call& call, Context& context) noexcept {
  map_elements(call.input(0), call.output(0), context, [](float x) { return x * x; });
}
void run_sqrt(const Call& call, Context& context) noexcept {
  map_elements(call.input(0), call.output(0), context, [](float x) { return std::sqrt(x); });
}
void run_abs(const Call& call, Context& context) noexcept {
  map_elements(call.input(0), call.output(0), context, [](float x) { return std::fabs(x); });
}
void run_clamp(const Call& call, Context& context) noexcept {
  const auto low = static_cast<float>(call.real(QUERN_KEY_MIN)), high = static_cast<float>(call.real(QUERN_KEY_MAX));
  map_elements(call.input(0), call.output(0), context, [low, high](float x) { return x < low ? low : x > high ? high : x; });
}

constexpr Kernel kernels_unary[] = {
    {QUERN_OP_NEG, "neg.portable", Isa::baseline, accepts_any, run_neg},
    {QUERN_OP_SQR, "sqr.portable", Isa::baseline, accepts_any, run_sqr},
    {QUERN_OP_SQRT, "sqrt.portable", Isa::baseline, accepts_any, run_sqrt},
    {QUERN_OP_ABS, "abs.portable", Isa::baseline, accepts_any, run_abs},
    {QUERN_OP_CLAMP, "clamp.portable", Isa::baseline, accepts_any, run_clamp},
};

}  // namespace

const std::span<const Kernel> unary_kernels = kernels_unary;

}  // namespace quern::cpu
