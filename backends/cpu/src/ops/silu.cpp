// y = x / (1 + exp(-x)).
#include "vectorised.hpp"

#include <algorithm>

namespace quern::cpu {
namespace {

Verdict accepts(const OpCall& call) {
  const TensorView &x = call.input(0), &y = call.output(0);
  if (Verdict v = check_floats(x, "x"); !v) return v;
  if (Verdict v = check_floats(y, "y"); !v) return v;
  return check_same_shape(x, "x", y, "y");
}

template <Isa isa>
void run(const OpCall& call, Context& context) noexcept {
  const Vectors& vectors = vectors_of(isa);
  const TensorView &x = call.input(0), &y = call.output(0);
  const std::int64_t n = row_length(x);
  context.parallel(row_count(x), rows_a_part(n), [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    constexpr std::int64_t part = 512;
    float buffer[part];
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t first = 0; first < n; first += part) {
        const std::int64_t count = std::min(part, n - first);
        load_row(x, row, first, count, buffer);
        vectors.silu(buffer, count, buffer);
        store_row(y, row, first, count, buffer);
      }
  });
}

constexpr Kernel kernels[] = {QUERN_CPU_KERNELS(QUERN_OP_SILU, "silu", accepts, run, nullptr, false)};

}  // namespace

const std::span<const Kernel> silu_kernels = kernels;

}  // namespace quern::cpu
