// y[i] = table[index[i]], decoded. An index out of range writes a row of zeros and raises INDEX_RANGE.
#include "vectorised.hpp"

namespace quern::cpu {
namespace {

std::uint64_t scratch_get_rows(const Call& call) noexcept {
  return static_cast<std::uint64_t>(call.output(0).last()) * 4 * call.thread_count;
}

/// i32 rows go as they are: f32 would round them.
void copy_integers(const Tensor& table, std::int64_t from, const Tensor& y, std::int64_t to) noexcept {
  const std::byte* source = row_pointer(table, from);
  std::byte* target = row_pointer(y, to);
  for (std::int64_t i = 0; i < y.last(); ++i) __builtin_memcpy(target + i * y.stride_from_end(0), source + i * table.stride_from_end(0), 4);
}

template <Isa isa>
void run_get_rows(const Call& call, Context& context) noexcept {
  const Vectors& vectors = vectors_of(isa);
  const Tensor &table = call.input(0), &index = call.input(1), &y = call.output(0);
  const std::int64_t n = y.last(), rows = table.dims[0];
  context.parallel(y.dims[0], rows_a_part(n), [&](std::int64_t begin, std::int64_t end, std::uint32_t thread) {
    float* buffer = reinterpret_cast<float*>(context.scratch()) + thread * n;
    for (std::int64_t i = begin; i < end; ++i) {
      if (!call.row_live(i)) continue;
      const std::int64_t row = load_integer(index, i);
      if (row < 0 || row >= rows) {
        context.fault(QUERN_FAULT_INDEX_RANGE);
        for (std::int64_t j = 0; j < n; ++j) buffer[j] = 0.0f;
        store_row(y, i, 0, n, buffer);
      } else if (table.dtype == QUERN_I32) {
        copy_integers(table, row, y, i);
      } else {
        const float* from = row_floats(vectors, table, row, buffer);
        if (y.dtype != QUERN_F32 && has_packed_rows(y)) vectors.from_floats(y.dtype, from, n, row_pointer(y, i));
        else store_row(y, i, 0, n, from);
      }
    }
  });
}

constexpr Kernel kernels_get_rows[] = {
    QUERN_CPU_KERNELS(QUERN_OP_GET_ROWS, "get_rows", accepts_any, run_get_rows, scratch_get_rows, false)};

}  // namespace

const std::span<const Kernel> get_rows_kernels = kernels_get_rows;

}  // namespace quern::cpu
