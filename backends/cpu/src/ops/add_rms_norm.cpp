// sum = a + b, y = rms_norm(sum) of the sum as it was stored: the bits of add and rms_norm run one after another.
#include "vectorised.hpp"

namespace quern::cpu {
namespace {

Verdict accepts_add_rms_norm(const Call& call) {
  return has_packed_rows(call.input(2)) ? Verdict::yes() : Verdict::no("weight is not packed");
}

std::uint64_t scratch_add_rms_norm(const Call& call) noexcept {
  return static_cast<std::uint64_t>(call.input(0).last()) * 8 * call.thread_count;
}

template <Isa isa>
void run_add_rms_norm(const Call& call, Context& context) noexcept {
  const Vectors& vectors = vectors_of(isa);
  const Tensor &a = call.input(0), &b = call.input(1), &sum = call.output(0), &y = call.output(1);
  const auto* weight = sdk::at<const float>(call.input(2).data);
  const auto epsilon = static_cast<float>(call.real(QUERN_KEY_EPSILON)), offset = static_cast<float>(call.real(QUERN_KEY_WEIGHT_OFFSET));
  const std::int64_t n = a.last();
  context.parallel(a.rows(), rows_a_part(n), [&](std::int64_t begin, std::int64_t end, std::uint32_t thread) {
    float *left = reinterpret_cast<float*>(context.scratch()) + thread * 2 * n, *right = left + n;
    for (std::int64_t row = begin; row < end; ++row) {
      // Both inputs are read before anything is stored: an output may be one of them.
      vectors.add(row_floats(vectors, a, row, left), row_floats(vectors, b, row, right), n, left);
      store_row(sum, row, 0, n, left);
      float* to = output_row(y, row, right);
      vectors.rms_norm(row_floats(vectors, sum, row, left), weight, offset, epsilon, n, to);
      finish_row(vectors, y, row, to, right);
    }
  });
}

constexpr Kernel kernels_add_rms_norm[] = {
    QUERN_CPU_KERNELS(QUERN_OP_ADD_RMS_NORM, "add_rms_norm", accepts_add_rms_norm, run_add_rms_norm, scratch_add_rms_norm, false)};

}  // namespace

const std::span<const Kernel> add_rms_norm_kernels = kernels_add_rms_norm;

}  // namespace quern::cpu
