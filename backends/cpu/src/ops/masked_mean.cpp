// Mean of x where mask is not 0, and how many those are; 0 and 0 where there are none. What the mask hides is never added, NaN or not.
//
// One pass in f64 in the order of x: a number a token is too little work to spread over threads.
#include "map_rows.hpp"

namespace quern::cpu {
namespace {

void run_masked_mean(const Call& call, Context& context) noexcept {
  const Tensor &x = call.input(0), &mask = call.input(1);
  double sum = 0.0;
  std::int64_t count = 0;
  float values[map_part];
  for (std::int64_t first = 0; first < x.dims[0] && !context.cancelled(); first += map_part) {
    const std::int64_t part = std::min(map_part, x.dims[0] - first);
    load_row(x, 0, first, part, values);
    for (std::int64_t i = 0; i < part; ++i)
      if (load_integer(mask, first + i) != 0) {
        sum += static_cast<double>(values[i]);
        ++count;
      }
  }
  store_scalar(call.output(0), 0, count == 0 ? 0.0f : static_cast<float>(sum / static_cast<double>(count)));
  store_scalar(call.output(1), 0, static_cast<float>(count));
}

constexpr Kernel kernels_masked_mean[] = {{QUERN_OP_MASKED_MEAN, "masked_mean.portable", Isa::baseline, accepts_any, run_masked_mean}};

}  // namespace

const std::span<const Kernel> masked_mean_kernels = kernels_masked_mean;

}  // namespace quern::cpu
