// Gradients of attention_dense. Their tiles: gradient_tile.hpp.
#include "gradient_tile.hpp"

namespace quern::cpu {
namespace {

template <Isa isa>
void run_attention_backward(const Call& call, Context& context) noexcept {
  const Vectors& vectors = vectors_of(isa);
  const GradientSizes s = gradient_sizes(call);
  auto* dots = reinterpret_cast<float*>(context.scratch());
  float* work = dots + row_dot_floats(call);
  const std::int64_t floats = gradient_tile_floats(s), key_blocks = (s.keys + gradient_tile - 1) / gradient_tile,
                     query_blocks = (s.queries + gradient_tile - 1) / gradient_tile;
  make_row_dots(call.input(y_in), call.input(dy_in), context, vectors, dots);
  context.parallel(s.batch * s.kv_heads * key_blocks, 1, [&](std::int64_t begin, std::int64_t end, std::uint32_t thread) {
    GradientTile tile(call, vectors, dots, work + thread * floats);
    for (std::int64_t i = begin; i < end; ++i)
      tile.make_keys(i / key_blocks / s.kv_heads, i / key_blocks % s.kv_heads, i % key_blocks * gradient_tile, context);
  });
  context.parallel(s.batch * s.heads * query_blocks, 1, [&](std::int64_t begin, std::int64_t end, std::uint32_t thread) {
    GradientTile tile(call, vectors, dots, work + thread * floats);
    for (std::int64_t i = begin; i < end; ++i)
      tile.make_queries(i / query_blocks / s.heads, i / query_blocks % s.heads, i % query_blocks * gradient_tile, context);
  });
}

constexpr Kernel kernels_attention_backward[] = {
    QUERN_CPU_KERNELS(QUERN_OP_ATTENTION_BACKWARD, "attention_backward", accepts_any, run_attention_backward, gradient_scratch, false)};

}  // namespace

const std::span<const Kernel> attention_backward_kernels = kernels_attention_backward;

}  // namespace quern::cpu
