// y = (weight + weight_offset) * x / sqrt(mean(x^2) + epsilon) a row; f32 arithmetic whatever the dtype.
//
// A row's squares are summed in 16 lanes and blocks of 4096, so its bits do not depend on the other rows. Rows that are
// not packed f32 are converted in the thread's part of scratch.
#include "vectorised.hpp"

namespace quern::cpu {
namespace {

Verdict accepts_rms_norm(const Call& call) {
  const Tensor& weight = call.input(1);
  return !weight.present() || has_packed_rows(weight) ? Verdict::yes() : Verdict::no("weight is not packed");
}

std::uint64_t scratch_rms_norm(const Call& call) noexcept {
  return static_cast<std::uint64_t>(call.input(0).last()) * 4 * call.thread_count;
}

template <Isa isa>
void run_rms_norm(const Call& call, Context& context) noexcept {
  const Vectors& vectors = vectors_of(isa);
  const Tensor &x = call.input(0), &weight = call.input(1), &y = call.output(0);
  const auto epsilon = static_cast<float>(call.real(QUERN_KEY_EPSILON)), offset = static_cast<float>(call.real(QUERN_KEY_WEIGHT_OFFSET));
  const std::int64_t n = x.last();
  const auto* w = weight.present() ? sdk::at<const float>(weight.data) : nullptr;
  context.parallel(x.rows(), rows_a_part(n), [&](std::int64_t begin, std::int64_t end, std::uint32_t thread) {
    float* buffer = reinterpret_cast<float*>(context.scratch()) + thread * n;
    for (std::int64_t row = begin; row < end; ++row) {
      float* to = output_row(y, row, buffer);
      vectors.rms_norm(row_floats(vectors, x, row, buffer), w, offset, epsilon, n, to);
      finish_row(vectors, y, row, to, buffer);
    }
  });
}

constexpr Kernel kernels_rms_norm[] = {
    QUERN_CPU_KERNELS(QUERN_OP_RMS_NORM, "rms_norm", accepts_rms_norm, run_rms_norm, scratch_rms_norm, false)};

}  // namespace

const std::span<const Kernel> rms_norm_kernels = kernels_rms_norm;

}  // namespace quern::cpu
