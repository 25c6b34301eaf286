// sum, mean, norm and count_equal over all elements. Of none: 0, NaN, 0 and 0.
//
// Parts of at most 4096 elements are cut by the shape alone and add up in their order, so threads do not change the result.
#include "element_parts.hpp"
#include "map_rows.hpp"

#include <atomic>
#include <cmath>
#include <cstring>

namespace quern::cpu {
namespace {

std::uint64_t scratch_reduce_all(const Call& call) noexcept { return static_cast<std::uint64_t>(element_parts(call.input(0)).count) * 8; }

template <typename F>
double sum_all(const Tensor& x, Context& context, const F& f) noexcept {
  const auto sum = [&f](const Tensor& view, std::int64_t row, std::int64_t first, std::int64_t last) {
    return row_sum(view, row, first, last, f);
  };
  return sum_parts(x, context, reinterpret_cast<double*>(context.scratch()), sum);
}

void run_sum(const Call& call, Context& context) noexcept {
  store_scalar(call.output(0), 0, static_cast<float>(sum_all(call.input(0), context, [](float x) { return x; })));
}
void run_mean(const Call& call, Context& context) noexcept {
  const double sum = sum_all(call.input(0), context, [](float x) { return x; });
  store_scalar(call.output(0), 0, static_cast<float>(sum / static_cast<double>(call.input(0).elements())));
}
void run_norm(const Call& call, Context& context) noexcept {
  store_scalar(call.output(0), 0, static_cast<float>(std::sqrt(sum_all(call.input(0), context, [](float x) { return x * x; }))));
}

void run_count(const Call& call, Context& context) noexcept {
  const Tensor &a = call.input(0), &b = call.input(1), &count = call.output(0);
  const std::int64_t n = a.last();
  std::atomic<std::int64_t> total{0};
  context.parallel(a.rows(), rows_a_part(n, 65536), [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    std::int64_t equal = 0;
    for (std::int64_t row = begin; row < end; ++row) {
      const std::byte *left = row_pointer(a, row), *right = row_pointer(b, row);
      for (std::int64_t i = 0; i < n; ++i) equal += std::memcmp(left + i * a.stride_from_end(0), right + i * b.stride_from_end(0), 4) == 0;
    }
    total.fetch_add(equal, std::memory_order_relaxed);
  });
  const std::int64_t value = total.load(std::memory_order_relaxed);
  std::memcpy(bytes_of(count), &value, sizeof(value));
}

constexpr Kernel kernels_reduce_all[] = {
    {QUERN_OP_SUM, "sum.portable", Isa::baseline, accepts_any, run_sum, scratch_reduce_all},
    {QUERN_OP_MEAN, "mean.portable", Isa::baseline, accepts_any, run_mean, scratch_reduce_all},
    {QUERN_OP_NORM, "norm.portable", Isa::baseline, accepts_any, run_norm, scratch_reduce_all},
    {QUERN_OP_COUNT_EQUAL, "count_equal.portable", Isa::baseline, accepts_any, run_count},
};

}  // namespace

const std::span<const Kernel> reduce_all_kernels = kernels_reduce_all;

}  // namespace quern::cpu
