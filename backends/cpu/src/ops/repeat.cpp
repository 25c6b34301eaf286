// x again and again until it fills y.
#include "map_rows.hpp"

namespace quern::cpu {
namespace {

void run_repeat(const Call& call, Context& context) noexcept {
  const Tensor &x = call.input(0), &y = call.output(0);
  const std::int64_t n = y.last(), length = x.last();
  if (x.elements() == 0) return;  // then y is empty too
  context.parallel(y.rows(), rows_a_part(n), [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    float buffer[map_part];
    for (std::int64_t row = begin; row < end; ++row) {
      const std::byte* from = bytes_of(x);
      for (std::int64_t e = 1, above = row; e < static_cast<std::int64_t>(y.rank); ++e) {
        const auto at = static_cast<std::uint32_t>(e);
        from += above % y.dim_from_end(at) % x.dim_from_end(at) * x.stride_from_end(at);
        above /= y.dim_from_end(at);
      }
      for (std::int64_t first = 0; first < n; first += map_part) {
        const std::int64_t count = std::min(map_part, n - first);
        for (std::int64_t i = 0; i < count;) {
          const std::int64_t at = (first + i) % length, here = std::min(count - i, length - at);
          load_floats(from, x.dtype, x.stride_from_end(0), at, here, buffer + i);
          i += here;
        }
        store_row(y, row, first, count, buffer);
      }
    }
  });
}

constexpr Kernel kernels_repeat[] = {
    {QUERN_OP_REPEAT, "repeat.portable", Isa::baseline, accepts_any, run_repeat},
};

}  // namespace

const std::span<const Kernel> repeat_kernels = kernels_repeat;

}  // namespace quern::cpu
