// x with `before` and `after` elements of `value` around it along an axis.
#include "map_rows.hpp"

namespace quern::cpu {
namespace {

void run_pad(const Call& call, Context& context) noexcept {
  const Tensor &x = call.input(0), &y = call.output(0);
  const auto axis = static_cast<std::uint32_t>(call.integer(QUERN_KEY_AXIS));
  const std::int64_t before = call.integer(QUERN_KEY_BEFORE), n = y.last(), size = x.dims[axis];
  const auto value = static_cast<float>(call.real(QUERN_KEY_VALUE));
  const bool along_rows = axis + 1 == y.rank;
  std::int64_t inner = 1;  // rows for each index of the axis
  for (std::uint32_t d = axis + 1; d + 1 < y.rank; ++d) inner *= y.dims[d];
  context.parallel(y.rows(), rows_a_part(n), [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    float buffer[map_part];
    for (std::int64_t row = begin; row < end; ++row) {
      // Of this row, elements [low, high) come from element 0 on of row `source` of x.
      std::int64_t source = row, low = before, high = before + size;
      if (!along_rows) {
        const std::int64_t at = row / inner % y.dims[axis] - before;
        source = (row / inner / y.dims[axis] * size + at) * inner + row % inner;
        low = 0;
        high = at >= 0 && at < size ? n : 0;
      }
      for (std::int64_t first = 0; first < n; first += map_part) {
        const std::int64_t last = std::min(n, first + map_part), from = std::clamp(low, first, last), to = std::clamp(high, from, last);
        std::fill(buffer, buffer + (from - first), value);
        if (from < to) load_row(x, source, from - low, to - from, buffer + (from - first));
        std::fill(buffer + (to - first), buffer + (last - first), value);
        store_row(y, row, first, last - first, buffer);
      }
    }
  });
}

constexpr Kernel kernels_pad[] = {{QUERN_OP_PAD, "pad.portable", Isa::baseline, accepts_any, run_pad}};

}  // namespace

const std::span<const Kernel> pad_kernels = kernels_pad;

}  // namespace quern::cpu
