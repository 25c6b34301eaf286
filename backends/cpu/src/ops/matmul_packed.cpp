// y = alpha * a b^T + bias + beta * c for weights that were packed at load (packed/packed.hpp).
// How the work is cut is in packed_region.hpp.
#include "packed_region.hpp"

#include "../error.hpp"

namespace quern::cpu {
namespace {

template <quern_dtype Weights, Isa isa>
Verdict accepts_matmul_packed(const OpCall& call) {
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
std::uint64_t scratch_matmul_packed(const OpCall& call) noexcept {
  return PackedRegion({&call, 1}, isa, matmul_stages_y(call)).scratch_bytes(call.thread_count);
}

template <Isa isa>
void run_matmul_packed(const OpCall& call, Context& context) noexcept {
  const PackedRegion region({&call, 1}, isa, matmul_stages_y(call));
  for (std::int64_t batch = 0; batch < region.shape().batches && !context.cancelled(); ++batch) {
    region.round_rows(context, batch, nullptr);
    region.each_part(context, {&call, 1}, 1, [&](const OpCall& matmul, const PackedTile& tile, std::uint32_t thread) {
      region.multiply_and_store(context, thread, matmul, tile, batch);
    });
  }
}

#define QUERN_CPU_PACKED(dtype, name, isa) \
  {QUERN_OP_MATMUL, "matmul." name ".packed." #isa, Isa::isa, accepts_matmul_packed<dtype, Isa::isa>, run_matmul_packed<Isa::isa>, scratch_matmul_packed<Isa::isa>, false, true}
#define QUERN_CPU_PACKED_FLOATS(dtype, name) QUERN_CPU_PACKED(dtype, name, avx512), QUERN_CPU_PACKED(dtype, name, avx2)
#define QUERN_CPU_PACKED_BLOCKS(dtype, name) QUERN_CPU_PACKED(dtype, name, amx), QUERN_CPU_PACKED_FLOATS(dtype, name)
constexpr Kernel kernels_matmul_packed[] = {
    QUERN_CPU_PACKED_FLOATS(QUERN_F32, "f32"),   QUERN_CPU_PACKED_FLOATS(QUERN_F16, "f16"),   QUERN_CPU_PACKED_FLOATS(QUERN_BF16, "bf16"),
    QUERN_CPU_PACKED_BLOCKS(QUERN_Q4_0, "q4_0"), QUERN_CPU_PACKED_BLOCKS(QUERN_Q4_1, "q4_1"), QUERN_CPU_PACKED_BLOCKS(QUERN_Q5_0, "q5_0"),
    QUERN_CPU_PACKED_BLOCKS(QUERN_Q5_1, "q5_1"), QUERN_CPU_PACKED_BLOCKS(QUERN_Q8_0, "q8_0"), QUERN_CPU_PACKED_BLOCKS(QUERN_Q4_K, "q4_k"),
    QUERN_CPU_PACKED_BLOCKS(QUERN_Q5_K, "q5_k"), QUERN_CPU_PACKED_BLOCKS(QUERN_Q6_K, "q6_k"),
};
#undef QUERN_CPU_PACKED_BLOCKS
#undef QUERN_CPU_PACKED_FLOATS
#undef QUERN_CPU_PACKED

}  // namespace

const std::span<const Kernel> matmul_packed_kernels = kernels_matmul_packed;

}  // namespace quern::cpu
