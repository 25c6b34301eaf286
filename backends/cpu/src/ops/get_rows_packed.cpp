// get_rows from a table that is packed because a matmul shares it (a tied embedding): each row decodes to the bits of its
// canonical blocks.
#include "vectorised.hpp"

#include "../packed/packed.hpp"

namespace quern::cpu {
namespace {

template <Isa isa>
Verdict accepts_get_rows_packed(const Call& call) {
  return call.layout != nullptr && call.layout->isa == isa ? Verdict::yes() : Verdict::not_mine();
}

std::uint64_t scratch_get_rows_packed(const Call& call) noexcept {
  return static_cast<std::uint64_t>(call.output(0).last()) * 4 * call.thread_count;
}

template <Isa isa>
void run_get_rows_packed(const Call& call, Context& context) noexcept {
  const Vectors& vectors = vectors_of(isa);
  const Tensor &table = call.input(0), &index = call.input(1), &y = call.output(0);
  const PackedLayout& layout = *call.layout;
  const std::int64_t n = y.last(), panel_bytes = layout.panel_bytes(n);
  context.parallel(y.dims[0], rows_a_part(n), [&](std::int64_t begin, std::int64_t end, std::uint32_t thread) {
    float* buffer = reinterpret_cast<float*>(context.scratch()) + thread * n;
    for (std::int64_t i = begin; i < end; ++i) {
      if (!call.row_live(i)) continue;
      const std::int64_t row = load_integer(index, i);
      float* out = output_row(y, i, buffer);
      if (row < 0 || row >= table.dims[0]) {
        context.fault(QUERN_FAULT_INDEX_RANGE);
        for (std::int64_t j = 0; j < n; ++j) out[j] = 0.0f;
      } else {
        layout.unpack_row(bytes_of(table) + row / layout.panel_rows * panel_bytes, row % layout.panel_rows, n, out);
      }
      finish_row(vectors, y, i, out, buffer);
    }
  });
}

constexpr Kernel kernels_get_rows_packed[] = {
    {QUERN_OP_GET_ROWS, "get_rows.packed.avx512", Isa::avx512, accepts_get_rows_packed<Isa::avx512>, run_get_rows_packed<Isa::avx512>,
     scratch_get_rows_packed, true, true},
    {QUERN_OP_GET_ROWS, "get_rows.packed.avx2", Isa::avx2, accepts_get_rows_packed<Isa::avx2>, run_get_rows_packed<Isa::avx2>,
     scratch_get_rows_packed, true, true},
};

}  // namespace

const std::span<const Kernel> get_rows_packed_kernels = kernels_get_rows_packed;

}  // namespace quern::cpu
