// y = x / (1 + exp(-x)).
#include "map_rows.hpp"

namespace quern::cpu {
namespace {

template <Isa isa>
void run_silu(const Call& call, Context& context) noexcept {
  map_rows(call.input(0), call.output(0), context, vectors_of(isa).silu);
}

constexpr Kernel kernels_silu[] = {QUERN_CPU_KERNELS(QUERN_OP_SILU, "silu", accepts_any, run_silu, nullptr, false)};

}  // namespace

const std::span<const Kernel> silu_kernels = kernels_silu;

}  // namespace quern::cpu
