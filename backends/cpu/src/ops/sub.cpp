// y = a - b, b broadcast.
#include "elementwise.hpp"

namespace quern::cpu {
namespace {

void run_sub(const Call& call, Context& context) noexcept {
  map_operands(call, context, [](float a, float b) { return a - b; });
}

constexpr Kernel kernels_sub[] = {{QUERN_OP_SUB, "sub.portable", Isa::baseline, accepts_any, run_sub}};

}  // namespace

const std::span<const Kernel> sub_kernels = kernels_sub;

}  // namespace quern::cpu
