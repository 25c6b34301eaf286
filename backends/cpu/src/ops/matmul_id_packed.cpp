// y[t][u] = a[t][u or 0] b[id[t][u]]^T for experts that were packed at load (packed/packed.hpp).
// How the work is cut is in expert_region.hpp.
#include "expert_region.hpp"
#include "matmul_id_shape.hpp"
#include "packed_kernels.hpp"

namespace quern::cpu {
namespace {

template <quern_dtype Weights, Isa isa>
Verdict accepts(const Call& call) {
  if (call.layout == nullptr || call.layout->format != Weights || multiplying_layout(*call.layout, isa).isa != isa)
    return Verdict::not_mine();
  if (!conversions_allow(call.conversions, call.layout->activations))
    return Verdict::no("the experts are packed for rounded activations (int8, or bf16 of bf16 weights), which this node does not allow");
  return check_matmul_id(call);
}

template <Isa isa>
std::uint64_t scratch(const Call& call) noexcept {
  return ExpertRegion({&call, 1}, isa).scratch_bytes(call.thread_count);
}

template <Isa isa>
void run(const Call& call, Context& context) noexcept {
  const Tensor& y = call.output(0);
  ExpertRegion region({&call, 1}, isa);
  region.prepare(context, y);
  region.each_part(context, [&](const ExpertTile& tile, std::uint32_t thread) {
    float* single = region.single_row(y, tile);
    float* to = single != nullptr ? single : region.staged(context, thread);
    region.multiply(context, thread, 0, tile, to, tile.rows);
    if (single == nullptr) region.store(y, tile, to);
  });
}

constexpr Kernel kernels[] = {QUERN_CPU_PACKED_KERNELS((QUERN_OP_MATMUL_ID, "matmul_id"))};

}  // namespace

const std::span<const Kernel> matmul_id_packed_kernels = kernels;

}  // namespace quern::cpu
