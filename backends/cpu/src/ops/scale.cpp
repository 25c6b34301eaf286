// y = alpha x + beta, in f32 with one rounding at the store.
#include "map_rows.hpp"

namespace quern::cpu {
namespace {

void run_scale(const Call& call, Context& context) noexcept {
  const Tensor &x = call.input(0), &y = call.output(0);
  const float alpha = static_cast<float>(call.real(QUERN_KEY_ALPHA)), beta = static_cast<float>(call.real(QUERN_KEY_BETA));
  const std::int64_t length = x.last();
  const std::int64_t grain = std::max<std::int64_t>(1, 8192 / std::max<std::int64_t>(1, length));
  context.parallel(x.rows(), grain, [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    float buffer[map_part];
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t first = 0; first < length; first += map_part) {
        const std::int64_t n = std::min(map_part, length - first);
        load_row(x, row, first, n, buffer);
        if (beta == 0.0f)  // -0 is kept
          for (std::int64_t i = 0; i < n; ++i) buffer[i] *= alpha;
        else
          for (std::int64_t i = 0; i < n; ++i) buffer[i] = alpha * buffer[i] + beta;
        store_row(y, row, first, n, buffer);
      }
  });
}

constexpr Kernel kernels_scale[] = {{QUERN_OP_SCALE, "scale.portable", Isa::baseline, accepts_any, run_scale}};

}  // namespace

const std::span<const Kernel> scale_kernels = kernels_scale;

}  // namespace quern::cpu
