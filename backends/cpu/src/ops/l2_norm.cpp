// y = x / max(sqrt(sum(x^2)), epsilon).
#include "map_rows.hpp"

#include <cmath>

namespace quern::cpu {
namespace {

void run_l2_norm(const Call& call, Context& context) noexcept {
  const Tensor &x = call.input(0), &y = call.output(0);
  const auto epsilon = static_cast<float>(call.real(QUERN_KEY_EPSILON));
  const std::int64_t n = x.last();
  context.parallel(x.rows(), rows_a_part(n), [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    float buffer[map_part];
    for (std::int64_t row = begin; row < end; ++row) {
      const auto length = static_cast<float>(std::sqrt(row_sum(x, row, 0, n, [](float v) { return v * v; })));
      const float divisor = length < epsilon ? epsilon : length;  // NaN stays
      for (std::int64_t first = 0; first < n; first += map_part) {
        const std::int64_t part = std::min(map_part, n - first);
        load_row(x, row, first, part, buffer);
        for (std::int64_t i = 0; i < part; ++i) buffer[i] /= divisor;
        store_row(y, row, first, part, buffer);
      }
    }
  });
}

constexpr Kernel kernels_l2_norm[] = {{QUERN_OP_L2_NORM, "l2_norm.portable", Isa::baseline, accepts_any, run_l2_norm}};

}  // namespace

const std::span<const Kernel> l2_norm_kernels = kernels_l2_norm;

}  // namespace quern::cpu
