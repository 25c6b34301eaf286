// sort: a stable sort of each row. top_k: its k largest, best first. Ties go to the lowest index; NaN counts as -inf, as in argmax,
// and comes out as it was.
#include "vectorised.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace quern::cpu {
namespace {

Verdict accepts_rows(const Call& call) {
  if (call.input(0).last() > std::numeric_limits<std::int32_t>::max()) return Verdict::no("the rows of x are longer than an i32 counts");
  return Verdict::yes();
}

std::uint64_t scratch(const Call& call) noexcept { return static_cast<std::uint64_t>(call.input(0).last()) * 8 * call.thread_count; }

/// A total order, so that any sort is stable.
struct Before {
  const float* x;
  bool descending;
  float key(std::int32_t i) const noexcept { return x[i] == x[i] ? x[i] : -std::numeric_limits<float>::infinity(); }
  bool operator()(std::int32_t a, std::int32_t b) const noexcept {
    const float left = key(a), right = key(b);
    if (left != right) return descending ? left > right : left < right;
    return a < b;
  }
};

void sort_rows(const Call& call, Context& context, std::int64_t count, bool descending) noexcept {
  const Tensor &x = call.input(0), &value = call.output(0), &index = call.output(1);
  const std::int64_t n = x.last();
  context.parallel(x.rows(), rows_a_part(n), [&](std::int64_t begin, std::int64_t end, std::uint32_t thread) {
    auto* buffer = reinterpret_cast<float*>(context.scratch()) + thread * 2 * n;
    auto* ids = reinterpret_cast<std::int32_t*>(buffer + n);
    for (std::int64_t row = begin; row < end; ++row) {
      const float* from = row_floats(portable::vectors, x, row, buffer);
      std::iota(ids, ids + n, 0);
      std::partial_sort(ids, ids + count, ids + n, Before{from, descending});
      std::byte *values = row_pointer(value, row), *indices = row_pointer(index, row);
      for (std::int64_t i = 0; i < count; ++i) {
        __builtin_memcpy(values + i * value.stride_from_end(0), &from[ids[i]], 4);
        __builtin_memcpy(indices + i * index.stride_from_end(0), &ids[i], 4);
      }
    }
  });
}

void run_sort(const Call& call, Context& context) noexcept {
  sort_rows(call, context, call.input(0).last(), call.integer(QUERN_KEY_DESCENDING) != 0);
}
void run_top_k(const Call& call, Context& context) noexcept { sort_rows(call, context, call.integer(QUERN_KEY_K), true); }

constexpr Kernel kernels[] = {
    {QUERN_OP_SORT, "sort.portable", Isa::baseline, accepts_rows, run_sort, scratch},
    {QUERN_OP_TOP_K, "top_k.portable", Isa::baseline, accepts_rows, run_top_k, scratch},
};

}  // namespace

const std::span<const Kernel> sort_kernels = kernels;

}  // namespace quern::cpu
