// y = x / (1 + |x|).
#include "map_rows.hpp"

#include <cmath>

namespace quern::cpu {
namespace {

void run_softsign(const Call& call, Context& context) noexcept {
  map_elements(call.input(0), call.output(0), context,
               [](float x) { return std::fabs(x) > 0x1p30f ? std::copysign(1.0f, x) : x / (1.0f + std::fabs(x)); });
}

constexpr Kernel kernels_softsign[] = {{QUERN_OP_SOFTSIGN, "softsign.portable", Isa::baseline, accepts_any, run_softsign}};

}  // namespace

const std::span<const Kernel> softsign_kernels = kernels_softsign;

}  // namespace quern::cpu
