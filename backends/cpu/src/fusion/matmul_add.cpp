// A packed matmul and the add of its result to a residual: sum = residual + a b^T, added where a part has just been multiplied.
#include "packed_matmul.hpp"
#include "tables.hpp"

namespace quern::cpu {
namespace {

template <Isa isa>
std::uint32_t match_matmul_add(const Neighbours& nodes, std::uint32_t first, Refusal& refusal) {
  if (!nodes.is(first, QUERN_OP_MATMUL) || !nodes.is(first + 1, QUERN_OP_ADD)) return 0;
  const Call& add = nodes.calls[first + 1];
  const std::uint32_t product = nodes.output(first, 0);
  const bool left = nodes.input(first + 1, 0) == product, right = nodes.input(first + 1, 1) == product;
  if (!left && !right) return 0;
  if (const char* reason = why_no_packed_matmul(nodes, first); reason != nullptr) return refuse(refusal, 2, reason);
  if (!is_packed_matmul(nodes, first, isa)) return 0;  // another row's
  if (matmul_stages_y(nodes.calls[first])) return refuse(refusal, 2, "its product has a bias, an addend or a factor");
  if (left && right) return refuse(refusal, 2, "both operands of the sum are the product");
  if (add.real(QUERN_KEY_ALPHA) != 1.0) return refuse(refusal, 2, "an operand of the sum has a factor");
  if (!nodes.inner(first, first, 2)) return refuse(refusal, 2, "its product is read by another node too");
  for (const Tensor* view : {&add.input(0), &add.input(1), &add.output(0)})
    if (!is_float_rows(*view) || !same_shape(*view, add.output(0)))
      return refuse(refusal, 2, "the sum is not of packed f32 rows of one shape");
  return 2;
}

template <Isa isa>
void run_matmul_add(std::span<const Call> calls, Context& context) noexcept {
  const Tensor& sum = calls[1].output(0);
  if (sum.data == 0) return;  // nothing reads it
  // The operand of the add that has memory; the other is the product.
  const Tensor& residual = calls[1].input(0).data == 0 ? calls[1].input(1) : calls[1].input(0);
  const PackedRegion region(calls.first(1), isa, false);
  region.round_rows(context, 0, nullptr);
  region.each_part(context, calls.first(1), 1, [&](const Call& matmul, const PackedTile& tile, std::uint32_t thread) {
    float* to = reinterpret_cast<float*>(bytes_of(sum) + tile.first_token * sum.strides[0]) + tile.first_row;
    const float* from = reinterpret_cast<const float*>(bytes_of(residual) + tile.first_token * residual.strides[0]) + tile.first_row;
    region.multiply(context, thread, matmul, tile, to, sum.strides[0] / 4);
    for (std::int64_t t = 0; t < tile.tokens; ++t)
      region.vectors().add(from + t * (residual.strides[0] / 4), to + t * (sum.strides[0] / 4), tile.rows, to + t * (sum.strides[0] / 4));
  });
}

template <Isa isa>
std::uint64_t scratch_matmul_add(std::span<const Call> calls) {
  return PackedRegion(calls.first(1), isa, false).scratch_bytes(calls[0].thread_count);
}

constexpr Fusion fusions_matmul_add[] = {
    {"matmul_add.packed.amx", match_matmul_add<Isa::amx>, run_matmul_add<Isa::amx>, scratch_matmul_add<Isa::amx>},
    {"matmul_add.packed.avx512", match_matmul_add<Isa::avx512>, run_matmul_add<Isa::avx512>, scratch_matmul_add<Isa::avx512>},
    {"matmul_add.packed.avx2", match_matmul_add<Isa::avx2>, run_matmul_add<Isa::avx2>, scratch_matmul_add<Isa::avx2>},
};

}  // namespace

const std::span<const Fusion> matmul_add_fusions = fusions_matmul_add;

}  // namespace quern::cpu
