// y = alpha * a b^T + bias + beta * c for weights that were packed at load (packed/packed.hpp).
// How the work is cut is in packed_region.hpp.
#include "packed_kernels.hpp"
#include "packed_region.hpp"

namespace quern::cpu {
namespace {

template <quern_dtype Weights, Isa isa>
Verdict accepts(const OpCall& call) {
  const TensorView &a = call.input(0), &b = call.input(1), &y = call.output(0);
  if (b.layout == nullptr || b.dtype != Weights || multiplying_layout(*b.layout, isa).isa != isa) return Verdict::not_mine();
  if (!conversions_allow(call.conversions, b.layout->activations))
    return Verdict::no("the weights are packed for rounded activations (int8, or bf16 of bf16 weights), which this node does not allow");
  if (Verdict v = check_floats(a, "a"); !v) return v;
  if (Verdict v = check_floats(y, "y"); !v) return v;
  const MatmulShape s = matmul_shape(call);
  if (s.a_transposed || s.b_transposed) return Verdict::no("packed weights are not transposed, nor is a");
  if (a.rank < 1) return Verdict::invalid(concat("a is ", describe(a), "; it has one dimension or more"));
  if (b.dims[1] != s.k) return Verdict::invalid(concat("a is ", describe(a), " and b is ", describe(b), "; their k differ"));
  if (y.rank != a.rank || y.dim_from_end(0) != s.n || (a.rank > 1 && y.dim_from_end(1) != s.m))
    return Verdict::invalid(concat("y is ", describe(y), " for a of ", describe(a), " and b of ", describe(b)));
  for (std::uint32_t d = 2; d < a.rank; ++d)
    if (y.dim_from_end(d) != a.dim_from_end(d)) return Verdict::invalid(concat("y is ", describe(y), " for a of ", describe(a)));
  return check_matmul_epilogue(call, s.n);
}

template <Isa isa>
std::uint64_t scratch(const OpCall& call) noexcept {
  return PackedRegion({&call, 1}, isa, matmul_stages_y(call)).scratch_bytes(call.thread_count);
}

template <Isa isa>
void run(const OpCall& call, Context& context) noexcept {
  const PackedRegion region({&call, 1}, isa, matmul_stages_y(call));
  for (std::int64_t batch = 0; batch < region.shape().batches && !context.cancelled(); ++batch) {
    region.round_rows(context, batch, nullptr);
    region.each_part(context, {&call, 1}, 1, [&](const OpCall& matmul, const PackedTile& tile, std::uint32_t thread) {
      region.multiply_and_store(context, thread, matmul, tile, batch);
    });
  }
}

constexpr Kernel kernels[] = {QUERN_CPU_PACKED_KERNELS(QUERN_OP_MATMUL, "matmul")};

}  // namespace

const std::span<const Kernel> matmul_packed_kernels = kernels;

}  // namespace quern::cpu
