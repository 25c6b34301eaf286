// y = a + alpha b, b broadcast; packed f32 rows without a factor by vectors.
#include "elementwise.hpp"

namespace quern::cpu {
namespace {

Verdict accepts_add_rows(const Call& call) {
  Verdict verdict = check_packed_operands(call);
  return verdict && call.real(QUERN_KEY_ALPHA) != 1.0 ? Verdict::no("b has a factor") : verdict;
}

template <Isa isa>
void run_add_rows(const Call& call, Context& context) noexcept {
  map_packed_operands(call, context, vectors_of(isa).add);
}

void run_add(const Call& call, Context& context) noexcept {
  const float alpha = static_cast<float>(call.real(QUERN_KEY_ALPHA));
  if (alpha == 1.0f) return map_operands(call, context, [](float a, float b) { return a + b; });
  map_operands(call, context, [alpha](float a, float b) { return a + alpha * b; });
}

constexpr Kernel kernels_add[] = {
    QUERN_CPU_KERNELS(QUERN_OP_ADD, "add.rows", accepts_add_rows, run_add_rows, nullptr, false),
    {QUERN_OP_ADD, "add.portable", Isa::baseline, accepts_any, run_add},
};

}  // namespace

const std::span<const Kernel> add_kernels = kernels_add;

}  // namespace quern::cpu
