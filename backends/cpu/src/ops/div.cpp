// y = a / b, b broadcast.
#include "elementwise.hpp"

namespace quern::cpu {
namespace {

void run_div(const Call& call, Context& context) noexcept {
  map_operands(call, context, [](float a, float b) { return a / b; });
}

constexpr Kernel kernels_div[] = {{QUERN_OP_DIV, "div.portable", Isa::baseline, accepts_any, run_div}};

}  // namespace

const std::span<const Kernel> div_kernels = kernels_div;

}  // namespace quern::cpu
