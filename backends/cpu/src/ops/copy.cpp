// The same bytes under other strides.
#include "copy.hpp"
#include "tables.hpp"

#include <algorithm>
#include <cstring>

namespace quern::cpu {
namespace {

Verdict accepts_copy(const Call& call) {
  const Tensor& x = call.input(0);
  if (call.predicate.present() && x.rank < 2 && unit_elements(x.dtype) > 1)
    return Verdict::no("a predicate a row needs rows, x is one row of blocks");
  return Verdict::yes();
}

/// Units (elements or blocks) of a row, each `bytes` long.
void copy_row(const std::byte* from, std::int64_t from_step, std::byte* to, std::int64_t to_step, std::int64_t units,
              std::int64_t bytes) noexcept {
  if (from_step == bytes && to_step == bytes) {
    std::memcpy(to, from, static_cast<std::size_t>(units * bytes));
  } else if (bytes == 4) {
    for (std::int64_t i = 0; i < units; ++i) std::memcpy(to + i * to_step, from + i * from_step, 4);
  } else if (bytes == 2) {
    for (std::int64_t i = 0; i < units; ++i) std::memcpy(to + i * to_step, from + i * from_step, 2);
  } else {
    for (std::int64_t i = 0; i < units; ++i) std::memcpy(to + i * to_step, from + i * from_step, static_cast<std::size_t>(bytes));
  }
}

/// Those parts of the first dimension whose predicate is not 0.
void run_live_copy(const Call& call, Context& context, std::int64_t units, std::int64_t bytes) noexcept {
  const Tensor &x = call.input(0), &y = call.output(0);
  const std::int64_t parts = x.dims[0], rows = x.rank < 2 ? 0 : x.rows() / std::max<std::int64_t>(1, parts);
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, units * std::max<std::int64_t>(1, rows)));
  context.parallel(parts, grain, [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    for (std::int64_t part = begin; part < end; ++part) {
      if (!call.row_live(part)) continue;
      if (rows == 0) std::memcpy(bytes_of(y) + part * y.strides[0], bytes_of(x) + part * x.strides[0], static_cast<std::size_t>(bytes));
      for (std::int64_t row = part * rows; row < (part + 1) * rows; ++row)
        copy_row(row_pointer(x, row), x.stride_from_end(0), row_pointer(y, row), y.stride_from_end(0), units, bytes);
    }
  });
}

}  // namespace

void run_copy(const Call& call, Context& context) noexcept {
  const Tensor &x = call.input(0), &y = call.output(0);
  const std::int64_t bytes = unit_bytes(x.dtype), units = x.last() / unit_elements(x.dtype);
  if (call.predicate.present()) return run_live_copy(call, context, units, bytes);
  if (is_contiguous(x) && is_contiguous(y)) {
    context.parallel(x.rows() * units * bytes, std::int64_t{1} << 18, [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
      std::memcpy(bytes_of(y) + begin, bytes_of(x) + begin, static_cast<std::size_t>(end - begin));
    });
    return;
  }
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, units));
  context.parallel(x.rows(), grain, [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    for (std::int64_t row = begin; row < end; ++row)
      copy_row(row_pointer(x, row), x.stride_from_end(0), row_pointer(y, row), y.stride_from_end(0), units, bytes);
  });
}

namespace {

constexpr Kernel kernels_copy[] = {
    {QUERN_OP_COPY, "copy.portable", Isa::baseline, accepts_copy, run_copy, nullptr, true},
};

}  // namespace

const std::span<const Kernel> copy_kernels = kernels_copy;

}  // namespace quern::cpu
