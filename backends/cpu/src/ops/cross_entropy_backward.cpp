// dlogits = dloss * ((1 + 2 z_loss lse) softmax(x) - smoothing / n - (1 - smoothing) at the label), softmax(x) = exp(x - lse).
//
// An ignored row is exactly 0. So is one whose label is out of range, which raises INDEX_RANGE.
#include "map_rows.hpp"

namespace quern::cpu {
namespace {

template <Isa isa>
void run_cross_entropy_backward(const Call& call, Context& context) noexcept {
  const Vectors& vectors = vectors_of(isa);
  const Tensor &x = call.input(0), &label = call.input(1), &dx = call.output(0);
  const std::int64_t ignore = call.integer(QUERN_KEY_IGNORE), n = x.last();
  const double smoothing = call.real(QUERN_KEY_SMOOTHING), z_loss = call.real(QUERN_KEY_Z_LOSS);
  constexpr std::int64_t part = 2048;
  context.parallel(x.dims[0], rows_a_part(n), [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    float buffer[part];
    for (std::int64_t row = begin; row < end; ++row) {
      if (!call.row_live(row)) continue;
      const std::int64_t wanted = load_integer(label, row);
      const bool in_range = wanted >= 0 && wanted < n;
      if (!in_range && wanted != ignore) context.fault(QUERN_FAULT_INDEX_RANGE);
      if (!in_range || wanted == ignore) {
        store_zeros(dx, row);
        continue;
      }
      const float lse = load_scalar(call.input(2), row);
      const auto dloss = static_cast<double>(load_scalar(call.input(3), row));
      const auto factor = static_cast<float>(dloss * (1.0 + 2.0 * z_loss * static_cast<double>(lse)));
      const auto even = static_cast<float>(dloss * smoothing / static_cast<double>(n)), own = static_cast<float>(dloss * (1.0 - smoothing));
      for (std::int64_t first = 0; first < n; first += part) {
        const std::int64_t count = std::min(part, n - first);
        float* to = output_part(dx, row, first, buffer);
        vectors.exp_sum(part_floats(vectors, x, row, first, count, buffer), lse, count, to);
        vectors.scale(to, factor, count, to);
        if (even != 0.0f)
          for (std::int64_t i = 0; i < count; ++i) to[i] -= even;
        if (wanted >= first && wanted < first + count) to[wanted - first] -= own;
        finish_part(vectors, dx, row, first, count, to, buffer);
      }
    }
  });
}

constexpr Kernel kernels_cross_entropy_backward[] = {
    QUERN_CPU_KERNELS(QUERN_OP_CROSS_ENTROPY_BACKWARD, "cross_entropy_backward", accepts_any, run_cross_entropy_backward, nullptr, true)};

}  // namespace

const std::span<const Kernel> cross_entropy_backward_kernels = kernels_cross_entropy_backward;

}  // namespace quern::cpu
