// What the optimisers share: tensors of one shape as rows, one number of an input, parts of state that are read, changed and stored.
#pragma once

#include "vectorised.hpp"

#include <algorithm>
#include <initializer_list>

namespace quern::cpu {

/// Makes the views, which have one shape, one row where all of them are packed and `rows_matter` does not forbid it; a vector whose rows
/// matter becomes rows of one element.
inline void make_rows(std::initializer_list<Tensor*> views, bool rows_matter) noexcept {
  const bool packed = std::all_of(views.begin(), views.end(), [](const Tensor* v) { return !v->present() || is_contiguous(*v); });
  for (Tensor* view : views) {
    if (!view->present()) continue;
    if (!rows_matter && packed) {
      view->dims[0] = view->elements();
      view->strides[0] = unit_bytes(view->dtype);
      view->rank = 1;
    } else if (rows_matter && view->rank == 1) {
      view->dims[1] = 1;
      view->strides[1] = view->strides[0];
      view->rank = 2;
    }
  }
}

/// A part of a state tensor as f32: where it lies if it is packed f32, else a copy that store() puts back.
class StatePart {
 public:
  StatePart(const Vectors& vectors, const Tensor& view, std::int64_t row, std::int64_t first, std::int64_t count, float* buffer) noexcept
      : vectors_(vectors),
        view_(view),
        row_(row),
        first_(first),
        count_(count),
        buffer_(buffer),
        data_(output_part(view, row, first, buffer)) {
    if (data_ == buffer_) load_row(view, row, first, count, buffer);
  }
  float* data() const noexcept { return data_; }
  void store() const noexcept { finish_part(vectors_, view_, row_, first_, count_, data_, buffer_); }

 private:
  const Vectors& vectors_;
  const Tensor& view_;
  std::int64_t row_, first_, count_;
  float *buffer_, *data_;
};

constexpr std::int64_t state_part = 512;  // floats of a tensor that a thread holds on its stack at a time

/// Calls body(row, first, count) for parts of at most state_part elements of rows that the predicate lets through.
template <typename Body>
void each_state_part(const Call& call, const Tensor& rows, Context& context, const Body& body) noexcept {
  const std::int64_t n = rows.last(), parts = (n + state_part - 1) / state_part;
  const std::int64_t rows_each = call.predicate.present() && rows.dims[0] > 0 ? std::max<std::int64_t>(1, rows.rows() / rows.dims[0]) : 1;
  context.parallel(rows.rows() * parts, rows_a_part(std::min(n, state_part), 16384),
                   [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
                     for (std::int64_t i = begin; i < end; ++i) {
                       const std::int64_t row = i / parts, first = i % parts * state_part;
                       if (call.row_live(row / rows_each)) body(row, first, std::min(state_part, n - first));
                     }
                   });
}

}  // namespace quern::cpu
