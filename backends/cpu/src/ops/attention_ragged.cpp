// Softmax attention within packed examples: tiles of dense_tile.hpp, each of one example.
#include "dense_tile.hpp"
#include "ragged_attention.hpp"

namespace quern::cpu {
namespace {

std::uint64_t scratch_attention_ragged(const Call& call) noexcept { return examples_bytes(call) + dense_scratch(DenseCall(call).call()); }

template <Isa isa>
void run_attention_ragged(const Call& call, Context& context) noexcept {
  const DenseCall whole(call);
  const DenseSizes sizes = dense_sizes(whole.call());
  const Examples examples(call, sizes.queries, context.scratch(), context);
  auto* work = reinterpret_cast<float*>(context.scratch() + examples_bytes(call));
  const std::int64_t floats = dense_floats(sizes), kv_heads = call.input(1).dims[1];
  context.parallel(examples.blocks() * kv_heads, 1, [&](std::int64_t begin, std::int64_t end, std::uint32_t thread) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Examples::Block block = examples.block(i / kv_heads);
      const DenseCall example(call, block.first, block.rows);
      DenseTile(example.call(), vectors_of(isa), work + thread * floats).run(0, i % kv_heads, block.begin, context);
    }
  });
  fill_rows_from(call.output(0), examples.end(), 0.0f);
  fill_rows_from(call.output(1), examples.end(), dense_hidden);
}

constexpr Kernel kernels_attention_ragged[] = {
    QUERN_CPU_KERNELS(QUERN_OP_ATTENTION_RAGGED, "attention_ragged", accepts_any, run_attention_ragged, scratch_attention_ragged, false)};

}  // namespace

const std::span<const Kernel> attention_ragged_kernels = kernels_attention_ragged;

}  // namespace quern::cpu
