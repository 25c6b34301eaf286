// Gradients of attention_ragged: tiles of gradient_tile.hpp, each of one example.
#include "gradient_tile.hpp"
#include "ragged_attention.hpp"

namespace quern::cpu {
namespace {

std::uint64_t scratch_attention_ragged_backward(const Call& call) noexcept {
  return examples_bytes(call) + gradient_scratch(DenseCall(call).call());
}

template <Isa isa>
void run_attention_ragged_backward(const Call& call, Context& context) noexcept {
  const Vectors& vectors = vectors_of(isa);
  const DenseCall whole(call);
  const GradientSizes s = gradient_sizes(whole.call());
  const Examples examples(call, gradient_tile, context.scratch(), context);
  auto* dots = reinterpret_cast<float*>(context.scratch() + examples_bytes(call));
  float* work = dots + row_dot_floats(whole.call());
  const std::int64_t floats = gradient_tile_floats(s);
  make_row_dots(whole.call().input(y_in), whole.call().input(dy_in), context, vectors, dots);
  const auto each_block = [&](std::int64_t heads, const auto& make) {
    context.parallel(examples.blocks() * heads, 1, [&](std::int64_t begin, std::int64_t end, std::uint32_t thread) {
      for (std::int64_t i = begin; i < end; ++i) {
        const Examples::Block block = examples.block(i / heads);
        const DenseCall example(call, block.first, block.rows);
        GradientTile tile(example.call(), vectors, dots + block.first * s.heads, work + thread * floats);
        make(tile, i % heads, block.begin);
      }
    });
  };
  each_block(s.kv_heads, [&](GradientTile& tile, std::int64_t head, std::int64_t first) { tile.make_keys(0, head, first, context); });
  each_block(s.heads, [&](GradientTile& tile, std::int64_t head, std::int64_t first) { tile.make_queries(0, head, first, context); });
  for (std::size_t i = 0; i < 3; ++i) fill_rows_from(call.output(i), examples.end(), 0.0f);
}

constexpr Kernel kernels_attention_ragged_backward[] = {QUERN_CPU_KERNELS(QUERN_OP_ATTENTION_RAGGED_BACKWARD, "attention_ragged_backward",
                                                                          accepts_any, run_attention_ragged_backward,
                                                                          scratch_attention_ragged_backward, false)};

}  // namespace

const std::span<const Kernel> attention_ragged_backward_kernels = kernels_attention_ragged_backward;

}  // namespace quern::cpu
