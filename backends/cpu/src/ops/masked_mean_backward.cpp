// dx = dy / count where mask is not 0, else 0: a mask of zeros, whose count is 0, divides nothing.
#include "map_rows.hpp"

namespace quern::cpu {
namespace {

void run_masked_mean_backward(const Call& call, Context& context) noexcept {
  const Tensor &mask = call.input(0), &dx = call.output(0);
  const float each = load_scalar(call.input(2), 0) / load_scalar(call.input(1), 0);
  context.parallel(mask.dims[0], 16384, [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    float values[map_part];
    for (std::int64_t first = begin; first < end; first += map_part) {
      const std::int64_t count = std::min(map_part, end - first);
      for (std::int64_t i = 0; i < count; ++i) values[i] = load_integer(mask, first + i) != 0 ? each : 0.0f;
      store_row(dx, 0, first, count, values);
    }
  });
}

constexpr Kernel kernels_masked_mean_backward[] = {
    {QUERN_OP_MASKED_MEAN_BACKWARD, "masked_mean_backward.portable", Isa::baseline, accepts_any, run_masked_mean_backward}};

}  // namespace

const std::span<const Kernel> masked_mean_backward_kernels = kernels_masked_mean_backward;

}  // namespace quern::cpu
