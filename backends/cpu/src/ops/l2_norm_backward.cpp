// The gradient of l2_norm.
#include "vectorised.hpp"

#include <cmath>

namespace quern::cpu {
namespace {

std::uint64_t scratch_l2_norm_backward(const Call& call) noexcept {
  return static_cast<std::uint64_t>(call.input(0).last()) * 8 * call.thread_count;
}

/// Above epsilon the length turns with x: dx = (dy - x (x . dy) / length^2) / length; below it the divisor stands still.
template <Isa isa>
void run_l2_norm_backward(const Call& call, Context& context) noexcept {
  const Vectors& vectors = vectors_of(isa);
  const Tensor &x = call.input(0), &dy = call.input(1), &dx = call.output(0);
  const std::int64_t n = x.last();
  const auto epsilon = static_cast<float>(call.real(QUERN_KEY_EPSILON));
  context.parallel(x.rows(), rows_a_part(n), [&](std::int64_t begin, std::int64_t end, std::uint32_t thread) {
    float *own = reinterpret_cast<float*>(context.scratch()) + thread * 2 * n, *second = own + n;
    for (std::int64_t row = begin; row < end; ++row) {
      const float *c = row_floats(vectors, x, row, own), *d = row_floats(vectors, dy, row, second);
      const float length = std::sqrt(vectors.dot(c, c, n));
      const bool still = length < epsilon;  // not of NaN
      const float inverse = 1.0f / (still ? epsilon : length), slope = still ? 0.0f : vectors.dot(c, d, n) * inverse * inverse * inverse;
      float* to = output_row(dx, row, own);
      vectors.combine(d, inverse, c, -slope, n, to);
      finish_row(vectors, dx, row, to, own);
    }
  });
}

constexpr Kernel kernels_l2_norm_backward[] = {
    QUERN_CPU_KERNELS(QUERN_OP_L2_NORM_BACKWARD, "l2_norm_backward", accepts_any, run_l2_norm_backward, scratch_l2_norm_backward, false)};

}  // namespace

const std::span<const Kernel> l2_norm_backward_kernels = kernels_l2_norm_backward;

}  // namespace quern::cpu
