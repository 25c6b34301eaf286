// y[t] = sum over u of weight[t][u] * x[t][u], in the order of u.
#include "map_rows.hpp"

namespace quern::cpu {
namespace {

template <Isa isa>
void run_moe_combine(const Call& call, Context& context) noexcept {
  const Vectors& vectors = vectors_of(isa);
  const Tensor &x = call.input(0), &weight = call.input(1), &y = call.output(0);
  const std::int64_t used = x.dims[1], n = x.dims[2], parts = (n + map_part - 1) / map_part;
  context.parallel(x.dims[0] * parts, rows_a_part(std::min(n, map_part) * std::max<std::int64_t>(1, used)),
                   [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
                     float sum[map_part], part[map_part];
                     for (std::int64_t i = begin; i < end; ++i) {
                       const std::int64_t t = i / parts, first = i % parts * map_part, count = std::min(map_part, n - first);
                       if (!call.row_live(t)) continue;
                       std::fill_n(sum, count, 0.0f);
                       for (std::int64_t u = 0; u < used; ++u) {
                         const float w = load_scalar(weight, t * used + u);
                         vectors.combine(part_floats(vectors, x, t * used + u, first, count, part), w, sum, 1.0f, count, sum);
                       }
                       store_row(y, t, first, count, sum);
                     }
                   });
}

constexpr Kernel kernels_moe_combine[] = {
    QUERN_CPU_KERNELS(QUERN_OP_MOE_COMBINE, "moe_combine", accepts_any, run_moe_combine, nullptr, true)};

}  // namespace

const std::span<const Kernel> moe_combine_kernels = kernels_moe_combine;

}  // namespace quern::cpu
