// y = w + alpha * b a for an adapter of rank r. Sums run in f64 in the order of r; a part of a row of a is read once for 8 rows of w.
#include "map_rows.hpp"

namespace quern::cpu {
namespace {

constexpr std::int64_t row_block = 8;

void run_lora_merge(const Call& call, Context& context) noexcept {
  const Tensor &w = call.input(0), &a = call.input(1), &b = call.input(2), &y = call.output(0);
  const std::int64_t n = w.dims[0], k = w.dims[1], rank = a.dims[0], parts = (k + map_part - 1) / map_part;
  const double alpha = call.real(QUERN_KEY_ALPHA);
  context.parallel((n + row_block - 1) / row_block * parts, 1, [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    double sums[row_block][map_part];
    float values[map_part];
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i / parts * row_block, rows = std::min(row_block, n - row);
      const std::int64_t first = i % parts * map_part, count = std::min(map_part, k - first);
      for (auto& sum : sums) std::fill_n(sum, count, 0.0);
      for (std::int64_t r = 0; r < rank; ++r) {
        load_row(a, r, first, count, values);
        for (std::int64_t j = 0; j < rows; ++j) {
          const auto factor = static_cast<double>(load_scalar(b, (row + j) * rank + r));
          for (std::int64_t c = 0; c < count; ++c) sums[j][c] += factor * static_cast<double>(values[c]);
        }
      }
      for (std::int64_t j = 0; j < rows; ++j) {
        load_row(w, row + j, first, count, values);
        for (std::int64_t c = 0; c < count; ++c) values[c] = static_cast<float>(static_cast<double>(values[c]) + alpha * sums[j][c]);
        store_row(y, row + j, first, count, values);
      }
    }
  });
}

constexpr Kernel kernels_lora_merge[] = {{QUERN_OP_LORA_MERGE, "lora_merge.portable", Isa::baseline, accepts_any, run_lora_merge}};

}  // namespace

const std::span<const Kernel> lora_merge_kernels = kernels_lora_merge;

}  // namespace quern::cpu
