// Running sum along the last dimension: f32 sums inside blocks of 256 that start at the sum of the blocks before.
#include "map_rows.hpp"

namespace quern::cpu {
namespace {

void run_cumsum(const Call& call, Context& context) noexcept {
  const Tensor &x = call.input(0), &y = call.output(0);
  const std::int64_t n = x.last();
  context.parallel(x.rows(), rows_a_part(n), [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    float buffer[map_part];
    for (std::int64_t row = begin; row < end; ++row) {
      float before = 0.0f;
      for (std::int64_t first = 0; first < n; first += map_part) {
        const std::int64_t count = std::min(map_part, n - first);
        load_row(x, row, first, count, buffer);
        for (std::int64_t i = 1; i < count; ++i) buffer[i] += buffer[i - 1];
        if (first > 0)  // the first block keeps a -0
          for (std::int64_t i = 0; i < count; ++i) buffer[i] += before;
        before = buffer[count - 1];
        store_row(y, row, first, count, buffer);
      }
    }
  });
}

constexpr Kernel kernels_cumsum[] = {{QUERN_OP_CUMSUM, "cumsum.portable", Isa::baseline, accepts_any, run_cumsum}};

}  // namespace

const std::span<const Kernel> cumsum_kernels = kernels_cumsum;

}  // namespace quern::cpu
