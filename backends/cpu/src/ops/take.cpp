// y[i][j] = x[i][index[j]]. An index out of range writes 0 and raises INDEX_RANGE.
#include "tables.hpp"
#include "vectorised.hpp"

#include <algorithm>

namespace quern::cpu {
namespace {

/// Elements that a thread takes at a time, of one row.
constexpr std::int64_t part = 2048;

bool is_plain(const Tensor& view, quern_dtype dtype) noexcept { return view.dtype == dtype && has_packed_rows(view); }

/// Elements [first, end) of a row of f32 by i32. Returns whether every index was in range.
bool take_floats(const float* x, std::int64_t n, const std::int32_t* index, std::int64_t first, std::int64_t end, float* y) noexcept {
  bool inside = true;
  for (std::int64_t j = first; j < end; ++j) {
    const bool is_there = index[j] >= 0 && index[j] < n;
    y[j] = is_there ? x[index[j]] : 0.0f;
    inside = inside && is_there;
  }
  return inside;
}

/// The same for any dtypes and steps.
bool take_elements(const Tensor& x, const Tensor& index, const Tensor& y, std::int64_t row, std::int64_t first, std::int64_t end) noexcept {
  bool inside = true;
  for (std::int64_t j = first; j < end; ++j) {
    const std::int64_t from = load_integer(index, j);
    const bool is_there = from >= 0 && from < x.last();
    float element = 0.0f;
    if (is_there) load_row(x, row, from, 1, &element);
    store_row(y, row, j, 1, &element);
    inside = inside && is_there;
  }
  return inside;
}

void run_take(const Call& call, Context& context) noexcept {
  const Tensor &x = call.input(0), &index = call.input(1), &y = call.output(0);
  const std::int64_t count = index.dims[0], parts = (count + part - 1) / part;
  const bool plain = is_plain(x, QUERN_F32) && is_plain(y, QUERN_F32) && is_plain(index, QUERN_I32);
  context.parallel(x.dims[0] * parts, rows_a_part(std::min(count, part)), [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i / parts, first = i % parts * part, last = std::min(count, first + part);
      const bool inside =
          plain ? take_floats(reinterpret_cast<const float*>(row_pointer(x, row)), x.last(), sdk::at<const std::int32_t>(index.data), first,
                              last, reinterpret_cast<float*>(row_pointer(y, row)))
                : take_elements(x, index, y, row, first, last);
      if (!inside) context.fault(QUERN_FAULT_INDEX_RANGE);
    }
  });
}

constexpr Kernel kernels_take[] = {{QUERN_OP_TAKE, "take.portable", Isa::baseline, accepts_any, run_take}};

}  // namespace

const std::span<const Kernel> take_kernels = kernels_take;

}  // namespace quern::cpu
