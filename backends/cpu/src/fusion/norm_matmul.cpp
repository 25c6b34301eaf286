// rms_norm and the packed matmuls of its result (q, k and v), or neighbouring matmuls of one a.
//
// The rows are normed and rounded once, in one pass; the panels of all matrices are handed out in one loop: two barriers instead of
// two for each matmul and one for the norm, and small matrices (k and v) leave no thread without work.
#include "packed_matmul.hpp"
#include "tables.hpp"

namespace quern::cpu {
namespace {

template <Isa isa>
std::uint32_t match_norm_matmul(const Neighbours& nodes, std::uint32_t first, Refusal& refusal) {
  const bool normed = nodes.is(first, QUERN_OP_RMS_NORM);
  const std::uint32_t product = normed ? first + 1 : first;
  if (!nodes.is(product, QUERN_OP_MATMUL) || (normed && nodes.input(product, 0) != nodes.output(first, 0))) return 0;
  if (!normed && !(nodes.is(first + 1, QUERN_OP_MATMUL) && nodes.input(first, 0) == nodes.input(first + 1, 0))) return 0;
  if (const char* reason = why_no_packed_matmul(nodes, product); reason != nullptr) return refuse(refusal, 2, reason);
  if (!is_packed_matmul(nodes, product, isa)) return 0;  // another row's
  if (normed && leading_norm(nodes, first, isa) == 0)
    return refuse(refusal, 1, "the norm is not of packed f32 rows, or has another kernel");
  const std::uint32_t norm = leading_norm(nodes, first, isa), from = first + norm;
  std::uint32_t count = 0;
  // An addend may be what a product before it writes, so only the first has one.
  const auto joins = [&](std::uint32_t other) {
    return is_packed_matmul(nodes, other, isa) && share_rows(nodes, from, other) &&
           (other == from || !nodes.calls[other].input(3).present());
  };
  while (count < PackedRegion::most_matmuls && joins(from + count)) ++count;
  if (count == 0 || norm + count < 2) return refuse(refusal, 2, "the products of one value round it in different ways");
  return norm + count;
}

bool any_staged(std::span<const Call> matmuls) noexcept { return std::ranges::any_of(matmuls, matmul_stages_y); }

template <Isa isa>
void run_norm_matmul(std::span<const Call> calls, Context& context) noexcept {
  const Call* norm = norm_of(calls);
  const auto matmuls = calls.subspan(norm != nullptr ? 1 : 0);
  const PackedRegion region(matmuls, isa, any_staged(matmuls));
  region.round_rows(context, 0, norm);
  region.each_part(context, matmuls, 1, [&](const Call& matmul, const PackedTile& tile, std::uint32_t thread) {
    if (matmul.output(0).data != 0) region.multiply_and_store(context, thread, matmul, tile, 0);
  });
}

template <Isa isa>
std::uint64_t scratch_norm_matmul(std::span<const Call> calls) {
  const auto matmuls = calls.subspan(norm_of(calls) != nullptr ? 1 : 0);
  return PackedRegion(matmuls, isa, any_staged(matmuls)).scratch_bytes(calls[0].thread_count);
}

constexpr Fusion fusions_norm_matmul[] = {
    {"norm_matmul.packed.amx", match_norm_matmul<Isa::amx>, run_norm_matmul<Isa::amx>, scratch_norm_matmul<Isa::amx>},
    {"norm_matmul.packed.avx512", match_norm_matmul<Isa::avx512>, run_norm_matmul<Isa::avx512>, scratch_norm_matmul<Isa::avx512>},
    {"norm_matmul.packed.avx2", match_norm_matmul<Isa::avx2>, run_norm_matmul<Isa::avx2>, scratch_norm_matmul<Isa::avx2>},
};

}  // namespace

const std::span<const Fusion> norm_matmul_fusions = fusions_norm_matmul;

}  // namespace quern::cpu
