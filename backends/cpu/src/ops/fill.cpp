// Every element of y is `value`. An i32 takes it exactly or not at all.
#include "vectorised.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace quern::cpu {
namespace {

void run_fill(const Call& call, Context& context) noexcept {
  const Tensor& y = call.output(0);
  const double value = call.real(QUERN_KEY_VALUE);
  const std::int64_t n = y.last();
  const std::int32_t integer = y.dtype == QUERN_I32 ? static_cast<std::int32_t>(value) : 0;
  constexpr std::int64_t part = 512;
  float floats[part];
  std::fill(floats, floats + part, static_cast<float>(value));
  context.parallel(y.rows(), rows_a_part(n, 65536), [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    for (std::int64_t row = begin; row < end; ++row) {
      if (y.dtype == QUERN_I32) {
        std::byte* to = row_pointer(y, row);
        for (std::int64_t i = 0; i < n; ++i) std::memcpy(to + i * y.stride_from_end(0), &integer, sizeof(integer));
      } else {
        for (std::int64_t first = 0; first < n; first += part) store_row(y, row, first, std::min(part, n - first), floats);
      }
    }
  });
}

constexpr Kernel kernels_fill[] = {{QUERN_OP_FILL, "fill.portable", Isa::baseline, accepts_any, run_fill}};

}  // namespace

const std::span<const Kernel> fill_kernels = kernels_fill;

}  // namespace quern::cpu
