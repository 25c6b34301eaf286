// sum, mean, norm and count_equal over all elements. Of none: 0, NaN, 0 and 0.
//
// Parts of at most 4096 elements are cut by the shape alone and add up in their order, so threads do not change the result.
#include "map_rows.hpp"

#include "../error.hpp"

#include <atomic>
#include <cmath>
#include <cstring>

namespace quern::cpu {
namespace {

constexpr std::int64_t part_elements = 4096;

Verdict check_one(const TensorView& view, const char* name) {
  if (view.rank <= 1 && view.ranged == 0 && element_count(view) == 1) return Verdict::yes();
  return Verdict::invalid(concat(name, " is ", describe(view), "; it has one element"));
}
Verdict accepts(const OpCall& call) {
  if (Verdict v = check_floats(call.input(0), "x"); !v) return v;
  if (Verdict v = check_floats(call.output(0), "y"); !v) return v;
  return check_one(call.output(0), "y");
}
Verdict accepts_count(const OpCall& call) {
  const TensorView &a = call.input(0), &b = call.input(1), &count = call.output(0);
  if (Verdict v = check_dtype(a, "a", QUERN_I32); !v) return v;
  if (Verdict v = check_dtype(b, "b", QUERN_I32); !v) return v;
  if (Verdict v = check_dtype(count, "count", QUERN_I64); !v) return v;
  if (Verdict v = check_same_shape(a, "a", b, "b"); !v) return v;
  return check_one(count, "count");
}

/// A part is some whole short rows, or a piece of one long row.
struct Parts {
  std::int64_t length, rows, rows_each, pieces, count;
};
Parts parts_of(std::int64_t rows, std::int64_t length) noexcept {
  Parts p{};
  p.length = length;
  p.rows = rows;
  p.rows_each = std::max<std::int64_t>(1, part_elements / std::max<std::int64_t>(1, length));
  p.pieces = (length + part_elements - 1) / part_elements;
  p.count = (rows + p.rows_each - 1) / p.rows_each * p.pieces;
  return p;
}

/// An f64 a part. A packed tensor is cut as one row, which never makes more parts.
std::uint64_t scratch(const OpCall& call) noexcept {
  return static_cast<std::uint64_t>(parts_of(row_count(call.input(0)), row_length(call.input(0))).count) * 8;
}

template <typename F>
double sum_all(const TensorView& tensor, Context& context, const F& f) noexcept {
  TensorView x = tensor;
  if (is_contiguous(x)) {
    x.rank = 1;
    x.dims[0] = element_count(tensor);
    x.strides[0] = unit_bytes(x.dtype);
  }
  const Parts p = parts_of(row_count(x), row_length(x));
  auto* partial = reinterpret_cast<double*>(context.scratch());
  context.parallel(p.count, 2, [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first_row = i / p.pieces * p.rows_each, last_row = std::min(p.rows, first_row + p.rows_each);
      const std::int64_t first = i % p.pieces * part_elements, last = std::min(p.length, first + part_elements);
      partial[i] = 0.0;
      for (std::int64_t row = first_row; row < last_row; ++row) partial[i] += row_sum(x, row, first, last, f);
    }
  });
  double total = 0.0;
  if (context.cancelled()) return total;  // some parts are missing
  for (std::int64_t i = 0; i < p.count; ++i) total += partial[i];
  return total;
}

void run_sum(const OpCall& call, Context& context) noexcept {
  store_scalar(call.output(0), 0, static_cast<float>(sum_all(call.input(0), context, [](float x) { return x; })));
}
void run_mean(const OpCall& call, Context& context) noexcept {
  const double sum = sum_all(call.input(0), context, [](float x) { return x; });
  store_scalar(call.output(0), 0, static_cast<float>(sum / static_cast<double>(element_count(call.input(0)))));
}
void run_norm(const OpCall& call, Context& context) noexcept {
  store_scalar(call.output(0), 0, static_cast<float>(std::sqrt(sum_all(call.input(0), context, [](float x) { return x * x; }))));
}

void run_count(const OpCall& call, Context& context) noexcept {
  const TensorView &a = call.input(0), &b = call.input(1), &count = call.output(0);
  const std::int64_t n = row_length(a);
  std::atomic<std::int64_t> total{0};
  context.parallel(row_count(a), rows_a_part(n, 65536), [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    std::int64_t equal = 0;
    for (std::int64_t row = begin; row < end; ++row) {
      const std::byte *left = row_pointer(a, row), *right = row_pointer(b, row);
      for (std::int64_t i = 0; i < n; ++i)
        equal += std::memcmp(left + i * a.stride_from_end(0), right + i * b.stride_from_end(0), 4) == 0;
    }
    total.fetch_add(equal, std::memory_order_relaxed);
  });
  const std::int64_t value = total.load(std::memory_order_relaxed);
  std::memcpy(count.data, &value, sizeof(value));
}

constexpr Kernel kernels[] = {
    {QUERN_OP_SUM, "sum.portable", Isa::baseline, accepts, run_sum, scratch},
    {QUERN_OP_MEAN, "mean.portable", Isa::baseline, accepts, run_mean, scratch},
    {QUERN_OP_NORM, "norm.portable", Isa::baseline, accepts, run_norm, scratch},
    {QUERN_OP_COUNT_EQUAL, "count_equal.portable", Isa::baseline, accepts_count, run_count},
};

}  // namespace

const std::span<const Kernel> reduce_all_kernels = kernels;

}  // namespace quern::cpu
