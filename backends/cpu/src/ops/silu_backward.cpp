// dx = dy times the slope of silu at x.
#include "vectorised.hpp"

#include <algorithm>

namespace quern::cpu {
namespace {

template <Isa isa>
void run_silu_backward(const Call& call, Context& context) noexcept {
  const Vectors& vectors = vectors_of(isa);
  const Tensor &x = call.input(0), &dy = call.input(1), &dx = call.output(0);
  constexpr std::int64_t part = 1024;  // long rows are cut, so that one row keeps every thread busy
  const std::int64_t n = x.last(), parts = (n + part - 1) / part;
  context.parallel(x.rows() * parts, rows_a_part(std::min(n, part)), [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    float at[part], gradient[part];
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i / parts, first = i % parts * part, count = std::min(part, n - first);
      float* to = output_part(dx, row, first, at);
      vectors.silu_backward(part_floats(vectors, x, row, first, count, at), part_floats(vectors, dy, row, first, count, gradient), count,
                            to);
      finish_part(vectors, dx, row, first, count, to, at);
    }
  });
}

constexpr Kernel kernels_silu_backward[] = {
    QUERN_CPU_KERNELS(QUERN_OP_SILU_BACKWARD, "silu_backward", accepts_any, run_silu_backward, nullptr, false)};

}  // namespace

const std::span<const Kernel> silu_backward_kernels = kernels_silu_backward;

}  // namespace quern::cpu
