// y = a b, b broadcast; packed f32 rows by vectors.
#include "elementwise.hpp"

namespace quern::cpu {
namespace {

template <Isa isa>
void run_mul_rows(const Call& call, Context& context) noexcept {
  map_packed_operands(call, context, vectors_of(isa).mul);
}

void run_mul(const Call& call, Context& context) noexcept {
  map_operands(call, context, [](float a, float b) { return a * b; });
}

constexpr Kernel kernels_mul[] = {
    QUERN_CPU_KERNELS(QUERN_OP_MUL, "mul.rows", check_packed_operands, run_mul_rows, nullptr, false),
    {QUERN_OP_MUL, "mul.portable", Isa::baseline, accepts_any, run_mul},
};

}  // namespace

const std::span<const Kernel> mul_kernels = kernels_mul;

}  // namespace quern::cpu
