// y is x, held between min and max. NaN stays NaN.
#include "map_rows.hpp"

namespace quern::cpu {
namespace {

void run_clamp(const Call& call, Context& context) noexcept {
  const auto low = static_cast<float>(call.real(QUERN_KEY_MIN)), high = static_cast<float>(call.real(QUERN_KEY_MAX));
  map_elements(call.input(0), call.output(0), context, [low, high](float x) { return x < low ? low : x > high ? high : x; });
}

constexpr Kernel kernels_clamp[] = {{QUERN_OP_CLAMP, "clamp.portable", Isa::baseline, accepts_any, run_clamp}};

}  // namespace

const std::span<const Kernel> clamp_kernels = kernels_clamp;

}  // namespace quern::cpu
