// The inputs one after another along an axis, as bytes: any dtype, block formats too.
#include "vectorised.hpp"

#include <algorithm>
#include <cstring>

namespace quern::cpu {
namespace {

void copy_units(const std::byte* from, std::int64_t from_step, std::byte* to, std::int64_t to_step, std::int64_t units,
                std::int64_t bytes) noexcept {
  if (from_step == bytes && to_step == bytes) {
    std::memcpy(to, from, static_cast<std::size_t>(units * bytes));
    return;
  }
  for (std::int64_t i = 0; i < units; ++i) std::memcpy(to + i * to_step, from + i * from_step, static_cast<std::size_t>(bytes));
}

void run_concat(const Call& call, Context& context) noexcept {
  const Tensor& y = call.output(0);
  const auto axis = static_cast<std::uint32_t>(call.integer(QUERN_KEY_AXIS));
  const bool along_rows = axis + 1 == y.rank;
  const std::int64_t bytes = unit_bytes(y.dtype), elements = unit_elements(y.dtype);
  std::int64_t inner = 1;  // rows for each index of the axis
  for (std::uint32_t d = axis + 1; d + 1 < y.rank; ++d) inner *= y.dims[d];
  std::int64_t start = 0;
  for (const Tensor& x : call.inputs) {
    const std::int64_t units = x.last() / elements, from_rows = x.dims[axis] * inner, to_rows = y.dims[axis] * inner;
    if (x.elements() > 0)
      context.parallel(x.rows(), rows_a_part(units, 65536), [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
        for (std::int64_t row = begin; row < end; ++row) {
          const std::int64_t target = along_rows ? row : row / from_rows * to_rows + start * inner + row % from_rows;
          std::byte* to = row_pointer(y, target) + (along_rows ? start / elements * y.stride_from_end(0) : 0);
          copy_units(row_pointer(x, row), x.stride_from_end(0), to, y.stride_from_end(0), units, bytes);
        }
      });
    start += x.dims[axis];
  }
}

constexpr Kernel kernels_concat[] = {{QUERN_OP_CONCAT, "concat.portable", Isa::baseline, accepts_any, run_concat}};

}  // namespace

const std::span<const Kernel> concat_kernels = kernels_concat;

}  // namespace quern::cpu
