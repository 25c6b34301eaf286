// Softmax attention over dense keys and values, with the log of the sum of exp that the gradient needs. Its tiles: dense_tile.hpp.
#include "dense_tile.hpp"

namespace quern::cpu {
namespace {

template <Isa isa>
void run_attention_dense(const Call& call, Context& context) noexcept {
  const DenseSizes sizes = dense_sizes(call);
  const std::int64_t floats = dense_floats(sizes), kv_heads = call.input(1).dims[2],
                     blocks = (call.input(0).dims[1] + sizes.queries - 1) / sizes.queries;
  context.parallel(call.input(0).dims[0] * kv_heads * blocks, 1, [&](std::int64_t begin, std::int64_t end, std::uint32_t thread) {
    DenseTile tile(call, vectors_of(isa), reinterpret_cast<float*>(context.scratch()) + thread * floats);
    for (std::int64_t i = begin; i < end; ++i) tile.run(i / blocks / kv_heads, i / blocks % kv_heads, i % blocks * sizes.queries, context);
  });
}

constexpr Kernel kernels_attention_dense[] = {
    QUERN_CPU_KERNELS(QUERN_OP_ATTENTION_DENSE, "attention_dense", accepts_any, run_attention_dense, dense_scratch, false)};

}  // namespace

const std::span<const Kernel> attention_dense_kernels = kernels_attention_dense;

}  // namespace quern::cpu
