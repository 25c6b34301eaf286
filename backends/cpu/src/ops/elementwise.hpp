// What ops over two operands share: rows broadcast, any strides and any mix of float dtypes; y in f32 with one rounding at the store.
#pragma once

#include "map_rows.hpp"

namespace quern::cpu {

/// y = f(a, b) for each element; a row of b of length 1 repeats along the row of a.
template <typename F>
void map_operands(const Call& call, Context& context, const F& f) noexcept {
  const Tensor &a = call.input(0), &b = call.input(1), &y = call.output(0);
  const std::int64_t length = a.last(), b_length = b.last();
  const std::int64_t grain = std::max<std::int64_t>(1, 8192 / std::max<std::int64_t>(1, length));
  context.parallel(a.rows(), grain, [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    float left[map_part], right[map_part];
    for (std::int64_t row = begin; row < end; ++row) {
      const std::byte* b_row = broadcast_row_pointer(b, a, row);
      for (std::int64_t first = 0; first < length; first += map_part) {
        const std::int64_t n = std::min(map_part, length - first);
        load_row(a, row, first, n, left);
        if (b_length == 1) {
          load_floats(b_row, b.dtype, 0, 0, 1, right);
          std::fill(right + 1, right + n, right[0]);
        } else {
          load_floats(b_row, b.dtype, b.stride_from_end(0), first, n, right);
        }
        for (std::int64_t i = 0; i < n; ++i) left[i] = f(left[i], right[i]);
        store_row(y, row, first, n, left);
      }
    }
  });
}

/// Packed f32 rows whose b is no single number.
inline Verdict check_packed_operands(const Call& call) {
  for (const auto& [view, name] : {std::pair{&call.input(0), "a"}, std::pair{&call.input(1), "b"}, std::pair{&call.output(0), "y"}})
    if (view->dtype != QUERN_F32 || !has_packed_rows(*view)) return Verdict::no(concat(name, " is not f32 in packed rows"));
  if (call.input(1).last() != call.input(0).last()) return Verdict::no("one number of b is for a row of a");
  return Verdict::yes();
}

/// The same by a function of `vectors` for packed f32 rows, as check_packed_operands lets pass.
inline void map_packed_operands(const Call& call, Context& context,
                                void (*body)(const float*, const float*, std::int64_t, float*)) noexcept {
  const Tensor &a = call.input(0), &b = call.input(1), &y = call.output(0);
  const auto floats = [](std::byte* from) { return reinterpret_cast<float*>(from); };
  if (same_shape(a, b) && is_contiguous(a) && is_contiguous(b) && is_contiguous(y)) {
    context.parallel(a.elements(), 16384, [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
      body(floats(bytes_of(a)) + begin, floats(bytes_of(b)) + begin, end - begin, floats(bytes_of(y)) + begin);
    });
    return;
  }
  const std::int64_t n = a.last();
  context.parallel(a.rows(), rows_a_part(n), [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    for (std::int64_t row = begin; row < end; ++row)
      body(floats(row_pointer(a, row)), floats(broadcast_row_pointer(b, a, row)), n, floats(row_pointer(y, row)));
  });
}

}  // namespace quern::cpu
