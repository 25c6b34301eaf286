// The transpose of repeat: y is x summed over its repeats, in f64 and in their order.
#include "map_rows.hpp"

namespace quern::cpu {
namespace {

/// How often y repeats in x along the leading dims, all together.
std::int64_t leading_repeats(const Tensor& x, const Tensor& y) noexcept {
  std::int64_t count = 1;
  for (std::uint32_t e = 1; e < x.rank; ++e) count *= x.dim_from_end(e) / y.dim_from_end(e);
  return count;
}

/// The row of x that the repeat `r` of row `row` of y is.
const std::byte* repeated_row(const Tensor& x, const Tensor& y, std::int64_t row, std::int64_t r) noexcept {
  const std::byte* from = bytes_of(x);
  for (std::uint32_t e = 1; e < x.rank; ++e) {
    const std::int64_t size = y.dim_from_end(e), repeats = x.dim_from_end(e) / size;
    from += (r % repeats * size + row % size) * x.stride_from_end(e);
    r /= repeats;
    row /= size;
  }
  return from;
}

void run_sum_to(const Call& call, Context& context) noexcept {
  const Tensor &x = call.input(0), &y = call.output(0);
  const std::int64_t n = y.last(), length = x.last(), parts = (n + map_part - 1) / map_part, repeats = leading_repeats(x, y);
  context.parallel(y.rows() * parts, 1, [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    float buffer[map_part];
    double total[map_part];
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i / parts, first = i % parts * map_part, count = std::min(map_part, n - first);
      std::fill(total, total + count, 0.0);
      for (std::int64_t r = 0; r < repeats; ++r) {
        const std::byte* from = repeated_row(x, y, row, r);
        if (n == 1)  // a whole row of x in one element
          for (std::int64_t at = 0; at < length; at += map_part) {
            const std::int64_t here = std::min(map_part, length - at);
            load_floats(from, x.dtype, x.stride_from_end(0), at, here, buffer);
            for (std::int64_t j = 0; j < here; ++j) total[0] += static_cast<double>(buffer[j]);
          }
        else
          for (std::int64_t at = first; at < length; at += n) {
            load_floats(from, x.dtype, x.stride_from_end(0), at, count, buffer);
            for (std::int64_t j = 0; j < count; ++j) total[j] += static_cast<double>(buffer[j]);
          }
      }
      for (std::int64_t j = 0; j < count; ++j) buffer[j] = static_cast<float>(total[j]);
      store_row(y, row, first, count, buffer);
    }
  });
}

constexpr Kernel kernels_sum_to[] = {{QUERN_OP_SUM_TO, "sum_to.portable", Isa::baseline, accepts_any, run_sum_to}};

}  // namespace

const std::span<const Kernel> sum_to_kernels = kernels_sum_to;

}  // namespace quern::cpu
