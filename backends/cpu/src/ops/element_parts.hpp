// Sums over all elements of a tensor: parts of at most 4096 elements, cut by the shape alone, added up in their order.
#pragma once

#include "../kernel.hpp"

#include <algorithm>

namespace quern::cpu {

constexpr std::int64_t part_elements = 4096;

/// A part is some whole short rows, or a piece of one long row.
struct ElementParts {
  std::int64_t length, rows, rows_each, pieces, count;
};
inline ElementParts element_parts(const Tensor& x) noexcept {
  ElementParts p{};
  p.length = x.last();
  p.rows = x.rows();
  p.rows_each = std::max<std::int64_t>(1, part_elements / std::max<std::int64_t>(1, p.length));
  p.pieces = (p.length + part_elements - 1) / part_elements;
  p.count = (p.rows + p.rows_each - 1) / p.rows_each * p.pieces;
  return p;
}

/// The sum of f(x, row, first, last) over the parts of rows. `partial` holds element_parts(tensor).count numbers; a packed tensor is cut as
/// one row, which never makes more parts. 0 if the run was cancelled.
template <typename F>
double sum_parts(const Tensor& tensor, Context& context, double* partial, const F& f) noexcept {
  Tensor x = tensor;
  if (is_contiguous(x)) {
    x.rank = 1;
    x.dims[0] = tensor.elements();
    x.strides[0] = unit_bytes(x.dtype);
  }
  const ElementParts p = element_parts(x);
  context.parallel(p.count, 2, [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first_row = i / p.pieces * p.rows_each, last_row = std::min(p.rows, first_row + p.rows_each);
      const std::int64_t first = i % p.pieces * part_elements, last = std::min(p.length, first + part_elements);
      partial[i] = 0.0;
      for (std::int64_t row = first_row; row < last_row; ++row) partial[i] += f(x, row, first, last);
    }
  });
  double total = 0.0;
  if (context.cancelled()) return total;  // some parts are missing
  for (std::int64_t i = 0; i < p.count; ++i) total += partial[i];
  return total;
}

}  // namespace quern::cpu
