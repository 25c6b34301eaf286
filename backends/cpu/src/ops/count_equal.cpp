// How many elements are equal, bit by bit.
#include "vectorised.hpp"

#include <atomic>
#include <cstring>

namespace quern::cpu {
namespace {

void run_count_equal(const Call& call, Context& context) noexcept {
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

constexpr Kernel kernels_count_equal[] = {{QUERN_OP_COUNT_EQUAL, "count_equal.portable", Isa::baseline, accepts_any, run_count_equal}};

}  // namespace

const std::span<const Kernel> count_equal_kernels = kernels_count_equal;

}  // namespace quern::cpu
