// dx = scale * y * (dy - sum(y * dy)) for each row. Where y is 0 (hidden, or too small for f32) dx is 0.
#include "map_rows.hpp"

#include <cmath>

namespace quern::cpu {
namespace {

std::uint64_t scratch_softmax_backward(const Call& call) noexcept {
  return static_cast<std::uint64_t>(call.input(0).last()) * 8 * call.thread_count;
}

template <Isa isa>
void run_softmax_backward(const Call& call, Context& context) noexcept {
  const Vectors& vectors = vectors_of(isa);
  const Tensor &y = call.input(0), &dy = call.input(1), &dx = call.output(0);
  const std::int64_t n = y.last();
  const auto scale = static_cast<float>(call.real(QUERN_KEY_SCALE));
  context.parallel(y.rows(), rows_a_part(n), [&](std::int64_t begin, std::int64_t end, std::uint32_t thread) {
    float *own = reinterpret_cast<float*>(context.scratch()) + thread * 2 * n, *second = own + n;
    for (std::int64_t row = begin; row < end; ++row) {
      const float *p = row_floats(vectors, y, row, own), *d = row_floats(vectors, dy, row, second);
      float* to = output_row(dx, row, own);
      vectors.softmax_backward(p, d, vectors.dot(p, d, n), scale, n, to);
      finish_row(vectors, dx, row, to, own);
    }
  });
}

constexpr Kernel kernels_softmax_backward[] = {
    QUERN_CPU_KERNELS(QUERN_OP_SOFTMAX_BACKWARD, "softmax_backward", accepts_any, run_softmax_backward, scratch_softmax_backward, false)};

}  // namespace

const std::span<const Kernel> softmax_backward_kernels = kernels_softmax_backward;

}  // namespace quern::cpu
