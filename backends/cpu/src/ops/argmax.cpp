// Position of the largest element of each row; ties to the lowest; NaN counts as -inf; a row without another: 0.
#include "vectorised.hpp"

#include <algorithm>
#include <limits>

namespace quern::cpu {
namespace {

Verdict accepts_argmax(const Call& call) {
  if (call.input(0).last() > std::numeric_limits<std::int32_t>::max()) return Verdict::no("the rows of x are longer than an i32 counts");
  return Verdict::yes();
}

template <Isa isa>
void run_argmax(const Call& call, Context& context) noexcept {
  const Vectors& vectors = vectors_of(isa);
  const Tensor &x = call.input(0), &index = call.output(0);
  const std::int64_t n = x.last();
  context.parallel(x.rows(), rows_a_part(n), [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    constexpr std::int64_t part = 1024;
    float buffer[part];
    for (std::int64_t row = begin; row < end; ++row) {
      if (!call.row_live(row)) continue;
      float best = -std::numeric_limits<float>::infinity();
      std::int64_t at = 0;
      for (std::int64_t first = 0; first < n; first += part) {
        const std::int64_t count = std::min(part, n - first);
        load_row(x, row, first, count, buffer);
        const float here = vectors.maximum(buffer, count);
        if (!(here > best)) continue;
        best = here;
        at = first + (std::find(buffer, buffer + count, here) - buffer);
      }
      std::byte* to = index.rank == 0 ? bytes_of(index)
                                      : row_pointer(index, row / index.dims[index.rank - 1]) +
                                            row % index.dims[index.rank - 1] * index.stride_from_end(0);
      const auto found = static_cast<std::int32_t>(at);
      __builtin_memcpy(to, &found, sizeof(found));
    }
  });
}

constexpr Kernel kernels_argmax[] = {QUERN_CPU_KERNELS(QUERN_OP_ARGMAX, "argmax", accepts_argmax, run_argmax, nullptr, true)};

}  // namespace

const std::span<const Kernel> argmax_kernels = kernels_argmax;

}  // namespace quern::cpu
