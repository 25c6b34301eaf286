// y = x / (1 + |x|).
#include "map_rows.hpp"

#include <cmath>

namespace quern::cpu {
namespace {

void run(const Call& call, Context& context) noexcept {
  map_elements(call.input(0), call.output(0), context,
               [](float x) { return std::fabs(x) > 0x1p30f ? std::copysign(1.0f, x) : x / (1.0f + std::fabs(x)); });
}

constexpr Kernel kernels[] = {{QUERN_OP_SOFTSIGN, "softsign.portable", Isa::baseline, accepts_any, run}};

}  // namespace

const std::span<const Kernel> softsign_kernels = kernels;

}  // namespace quern::cpu
