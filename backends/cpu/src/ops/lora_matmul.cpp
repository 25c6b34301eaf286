// y[t] = base[t] + alpha * scale * B (A x[t]) with the adapter of row t: (offset of A, offset of B, rank, bits of scale) of its slot.
//
// A thread takes up to 8 rows; neighbours with one slot are multiplied together by matmul's row code. The rank is data of the run, so
// it is taken in parts of 256, whose f32 products add up in their order: a row's bits depend on its slot and its numbers alone.
// Slot -1 copies base bit for bit, or writes zeros without base. A slot out of range, or an adapter that does not lie inside the
// pool, gives zeros and INDEX_RANGE.
#include "lora_adapters.hpp"
#include "map_rows.hpp"
#include "matmul_rows.hpp"

#include <limits>

namespace quern::cpu {
namespace {

constexpr std::int64_t group_rows = 8;
constexpr std::int64_t rank_part = 256;  // a multiple of 32
constexpr std::int64_t output_part = 512;

Verdict accepts_lora_matmul(const Call& call) {
  const Tensor &x = call.input(0), &y = call.output(0);
  if (x.dims[1] > std::numeric_limits<std::int32_t>::max() || y.dims[1] > std::numeric_limits<std::int32_t>::max())
    return Verdict::no(concat("x is ", shape_text(x), " and y is ", shape_text(y), "; their rows are shorter than 2^31"));
  return check_adapters(call);
}

/// Floats of a thread.
struct Layout {
  std::int64_t x, low, outputs, part, size;
};
Layout layout_of_lora_matmul(const Call& call) noexcept {
  Layout l{};
  l.x = matmul_buffer_floats();
  l.low = l.x + group_rows * padded(call.input(0).dims[1]);
  l.outputs = l.low + group_rows * rank_part;
  l.part = l.outputs + group_rows * output_part;
  l.size = l.part + group_rows * output_part;
  return l;
}

std::uint64_t scratch_lora_matmul(const Call& call) noexcept {
  return static_cast<std::uint64_t>(layout_of_lora_matmul(call).size) * 4 * call.thread_count;
}

/// Products of `rows` adapter rows with the tokens of `part`.
void multiply(MatmulPart part, quern_dtype dtype, const std::byte* weights, std::int64_t stride, std::int64_t rows, const float* a,
              std::int64_t k, float* y, const Vectors& vectors) noexcept {
  part.dtype = dtype;
  part.w = weights;
  part.w_stride = stride;
  part.rows = rows;
  part.a = a;
  part.a_stride = padded(k);
  part.k = k;
  part.y = y;
  vectors.matmul(part);
}

/// Rows [first, first + count), all with one adapter.
void adapt_rows(const Call& call, const Adapter& adapter, std::int64_t first, std::int64_t count, float* own, const Layout& l,
                const Vectors& vectors) noexcept {
  const Tensor &x = call.input(0), &base = call.input(4), &y = call.output(0);
  const std::int64_t k = x.dims[1], n = y.dims[1], unit = unit_bytes(call.input(1).dtype);
  for (std::int64_t t = 0; t < count; ++t)
    pack_activations(vectors, x.dtype, row_pointer(x, first + t), x.strides[1], k, own + l.x + t * padded(k));
  MatmulPart part{};
  part.tokens = count;
  part.buffer = own;
  float *low = own + l.low, *sums = own + l.outputs, *products = own + l.part;
  for (std::int64_t column = 0; column < n; column += output_part) {
    const std::int64_t columns = std::min(output_part, n - column);
    std::fill_n(sums, count * columns, 0.0f);
    for (std::int64_t r = 0; r < adapter.rank; r += rank_part) {
      const std::int64_t ranks = std::min(rank_part, adapter.rank - r);
      if (column == 0 || adapter.rank > rank_part) {  // else A x is still there
        std::fill_n(low, count * padded(ranks), 0.0f);
        part.y_stride = padded(ranks);
        multiply(part, call.input(1).dtype, adapter.a + r * k * unit, k * unit, ranks, own + l.x, k, low, vectors);
      }
      part.y_stride = columns;
      multiply(part, call.input(1).dtype, adapter.b + (column * adapter.rank + r) * unit, adapter.rank * unit, columns, low, ranks,
               products, vectors);
      for (std::int64_t i = 0; i < count * columns; ++i) sums[i] += products[i];
    }
    for (std::int64_t t = 0; t < count; ++t) {
      float *row = sums + t * columns, *before = products;
      for (std::int64_t i = 0; i < columns; ++i) row[i] *= adapter.scale;
      if (base.present()) {
        load_row(base, first + t, column, columns, before);
        for (std::int64_t i = 0; i < columns; ++i) row[i] += before[i];
      }
      store_row(y, first + t, column, columns, row);
    }
  }
}

void copy_base(const Call& call, std::int64_t row) noexcept {
  const Tensor &base = call.input(4), &y = call.output(0);
  if (!base.present()) return store_zeros(y, row);
  const std::byte* from = row_pointer(base, row);
  std::byte* to = row_pointer(y, row);
  const auto unit = static_cast<std::size_t>(unit_bytes(y.dtype));
  for (std::int64_t i = 0; i < y.dims[1]; ++i) __builtin_memcpy(to + i * y.strides[1], from + i * base.strides[1], unit);
}

template <Isa isa>
void run_lora_matmul(const Call& call, Context& context) noexcept {
  const Tensor& slots = call.input(3);
  const Layout l = layout_of_lora_matmul(call);
  const std::int64_t rows = call.input(0).dims[0];
  context.parallel((rows + group_rows - 1) / group_rows, 1, [&](std::int64_t begin, std::int64_t end, std::uint32_t thread) {
    float* own = reinterpret_cast<float*>(context.scratch()) + l.size * thread;
    for (std::int64_t group = begin; group < end; ++group) {
      const std::int64_t last = std::min(rows, (group + 1) * group_rows);
      for (std::int64_t row = group * group_rows, next = row; row < last; row = next) {
        const std::int64_t slot = load_integer(slots, row);
        for (next = row + 1; next < last && load_integer(slots, next) == slot;) ++next;
        Adapter adapter{};
        if (slot == -1) {
          for (std::int64_t r = row; r < next; ++r) copy_base(call, r);
        } else if (read_adapter(call, slot, call.output(0).dims[1], adapter)) {
          adapt_rows(call, adapter, row, next - row, own, l, vectors_of(isa));
        } else {
          context.fault(QUERN_FAULT_INDEX_RANGE);
          for (std::int64_t r = row; r < next; ++r) store_zeros(call.output(0), r);
        }
      }
    }
  });
}

constexpr Kernel kernels_lora_matmul[] = {
    QUERN_CPU_KERNELS(QUERN_OP_LORA_MATMUL, "lora_matmul", accepts_lora_matmul, run_lora_matmul, scratch_lora_matmul, false)};

}  // namespace

const std::span<const Kernel> lora_matmul_kernels = kernels_lora_matmul;

}  // namespace quern::cpu
