// y = alpha * a b^T + bias + beta * c for weights that were packed at load (packed/packed.hpp).
// How the work is cut is in packed_region.hpp.
#include "packed_kernels.hpp"
#include "packed_region.hpp"

namespace quern::cpu {
namespace {

template <quern_dtype Weights, Isa isa>
Verdict accepts(const Call& call) {
  if (call.layout == nullptr || call.layout->format != Weights || multiplying_layout(*call.layout, isa).isa != isa)
    return Verdict::not_mine();
  if (!conversions_allow(call.conversions, call.layout->activations))
    return Verdict::no("the weights are packed for rounded activations (int8, or bf16 of bf16 weights), which this node does not allow");
  const MatmulShape s = matmul_shape(call);
  return s.a_transposed || s.b_transposed ? Verdict::no("packed weights are not transposed, nor is a") : Verdict::yes();
}

template <Isa isa>
std::uint64_t scratch(const Call& call) noexcept {
  return PackedRegion({&call, 1}, isa, matmul_stages_y(call)).scratch_bytes(call.thread_count);
}

template <Isa isa>
void run(const Call& call, Context& context) noexcept {
  const PackedRegion region({&call, 1}, isa, matmul_stages_y(call));
  for (std::int64_t batch = 0; batch < region.shape().batches && !context.cancelled(); ++batch) {
    region.round_rows(context, batch, nullptr);
    region.each_part(context, {&call, 1}, 1, [&](const Call& matmul, const PackedTile& tile, std::uint32_t thread) {
      region.multiply_and_store(context, thread, matmul, tile, batch);
    });
  }
}

constexpr Kernel kernels[] = {QUERN_CPU_PACKED_KERNELS((QUERN_OP_MATMUL, "matmul"))};

}  // namespace

const std::span<const Kernel> matmul_packed_kernels = kernels;

}  // namespace quern::cpu
