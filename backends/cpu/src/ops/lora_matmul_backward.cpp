// Gradients of lora_matmul. With c = alpha * scale of a row's adapter, h = A x and g = B^T dy: dx = c A^T g, dA = c sum of g x^T and
// dB = c sum of dy h^T over the rows of the adapter.
//
// Adapters are taken by ascending slot, their rows in order and in sums of 64 rows, the rank in parts of 256, whose h and g lie in scratch
// for all rows. Adapters that share elements of the pool add up in the order of their slots. Slot -1 gives a dx of zeros and nothing
// else; so does a slot out of range or an adapter that does not lie inside the pool, which raises INDEX_RANGE.
#include "lora_adapters.hpp"
#include "map_rows.hpp"
#include "matmul_rows.hpp"
#include "product_parts.hpp"
#include "row_groups.hpp"

#include <limits>

namespace quern::cpu {
namespace {

constexpr std::int64_t rank_part = 256;
constexpr std::int64_t dx_rows = 32;          // of dx made together
constexpr std::int64_t activation_rows = 16;  // of x multiplied with A together

Verdict accepts(const Call& call) {
  const Tensor &x = call.input(0), &dy = call.input(4);
  if (x.dims[1] > std::numeric_limits<std::int32_t>::max() || dy.dims[1] > std::numeric_limits<std::int32_t>::max())
    return Verdict::no(concat("x is ", shape_text(x), " and dy is ", shape_text(dy), "; their rows are shorter than 2^31"));
  return check_adapters(call);
}

/// Scratch: the groups, h and g of all rows, then each thread's floats.
struct Layout {
  std::int64_t groups;                           // bytes
  std::int64_t low;                              // floats of h, and of g
  std::int64_t x, rows, weights, sums, g, size;  // floats of a thread; first matmul's own
};
Layout layout_of(const Call& call) noexcept {
  const std::int64_t k = padded(call.input(0).dims[1]);
  Layout l{};
  l.groups = row_groups_bytes(call.input(3).dims[0], call.input(2).dims[0]);
  l.low = call.input(0).dims[0] * rank_part;
  l.x = matmul_buffer_floats();
  l.rows = l.x + activation_rows * k;
  l.weights = l.rows + product_rows * product_columns;
  l.sums = l.weights + product_rows * product_rows;
  l.g = l.sums + std::max(rank_part * product_columns, dx_rows * k);
  l.size = l.g + dx_rows * rank_part;
  return l;
}
std::uint64_t scratch(const Call& call) noexcept {
  const Layout l = layout_of(call);
  return static_cast<std::uint64_t>(l.groups) + static_cast<std::uint64_t>(2 * l.low + l.size * call.thread_count) * 4;
}

/// The rows of one adapter: order[0 .. count), and their h and g, of which a rank part is there at a time.
struct AdapterRows {
  Adapter adapter;
  const std::int64_t* order;
  std::int64_t count;
  float *h, *g;
};

/// One thread's work.
class Part {
 public:
  Part(const Call& call, const AdapterRows& rows, const Layout& l, const Vectors& vectors, float* own) noexcept
      : x_(call.input(0)),
        dy_(call.input(4)),
        dpool_(call.output(1)),
        call_(call),
        r_(rows),
        vectors_(vectors),
        pool_(call.input(1).dtype),
        unit_(unit_bytes(pool_)),
        k_(x_.dims[1]),
        n_(dy_.dims[1]),
        buffer_(own),
        x_rows_(own + l.x),
        rows_(own + l.rows),
        weights_(own + l.weights),
        sums_(own + l.sums),
        own_g_(own + l.g) {}

  /// h and g of rows [first, first + count) for `ranks` ranks from `rank` on.
  void make_low(std::int64_t first, std::int64_t count, std::int64_t rank, std::int64_t ranks) noexcept {
    MatmulPart part{};
    part.dtype = pool_;
    part.w = r_.adapter.a + rank * k_ * unit_;
    part.w_stride = k_ * unit_;
    part.rows = ranks;
    part.a = x_rows_;
    part.a_stride = padded(k_);
    part.k = k_;
    part.y_stride = rank_part;
    part.buffer = buffer_;
    for (std::int64_t at = first; at < first + count; at += activation_rows) {
      part.tokens = std::min(activation_rows, first + count - at);
      for (std::int64_t t = 0; t < part.tokens; ++t)
        pack_activations(vectors_, x_.dtype, row_pointer(x_, r_.order[at + t]), x_.strides[1], k_, x_rows_ + t * padded(k_));
      part.y = r_.h + at * rank_part;
      for (std::int64_t t = 0; t < part.tokens; ++t) std::fill_n(part.y + t * rank_part + ranks, whole_lanes(ranks) - ranks, 0.0f);
      vectors_.matmul(part);
    }
    make_g(first, count, rank, ranks, r_.g + first * rank_part);
  }

  /// dA of `ranks` ranks and columns from `column` on.
  void make_da(std::int64_t column, std::int64_t rank, std::int64_t ranks, const Context& context) noexcept {
    const std::int64_t columns = std::min(product_columns, k_ - column), width = whole_lanes(columns);
    std::fill_n(sums_, ranks * width, 0.0f);
    for (std::int64_t at = 0; at < r_.count && !context.cancelled(); at += product_rows) {
      const std::int64_t depth = std::min(product_rows, r_.count - at);
      for (std::int64_t j = 0; j < depth; ++j)
        gather(vectors_, x_.dtype, row_pointer(x_, r_.order[at + j]), x_.strides[1], column, columns, rows_ + j * width);
      vectors_.accumulate({r_.g + at * rank_part, 1, rank_part, rows_, width, sums_, width, nullptr, ranks, depth, width});
    }
    for (std::int64_t r = 0; r < ranks; ++r)
      store_product(bytes_of(dpool_), dpool_.dtype, dpool_.strides[0], r_.adapter.a_offset + (rank + r) * k_ + column, columns,
                    r_.adapter.scale, true, sums_ + r * width, rows_);
  }

  /// dB of rows from `row` on and `ranks` ranks.
  void make_db(std::int64_t row, std::int64_t rank, std::int64_t ranks, const Context& context) noexcept {
    const std::int64_t rows = std::min(product_rows, n_ - row), width = whole_lanes(ranks);
    std::fill_n(sums_, rows * width, 0.0f);
    for (std::int64_t at = 0; at < r_.count && !context.cancelled(); at += product_rows) {
      const std::int64_t depth = std::min(product_rows, r_.count - at);
      for (std::int64_t j = 0; j < depth; ++j)
        gather(vectors_, dy_.dtype, row_pointer(dy_, r_.order[at + j]), dy_.strides[1], row, rows, weights_ + j * product_rows);
      vectors_.accumulate({weights_, 1, product_rows, r_.h + at * rank_part, rank_part, sums_, width, nullptr, rows, depth, width});
    }
    for (std::int64_t r = 0; r < rows; ++r)
      store_product(bytes_of(dpool_), dpool_.dtype, dpool_.strides[0], r_.adapter.b_offset + (row + r) * r_.adapter.rank + rank, ranks,
                    r_.adapter.scale, true, sums_ + r * width, rows_);
  }

  /// dx of rows [first, first + count).
  void make_dx(std::int64_t first, std::int64_t count, const Context& context) noexcept {
    const std::int64_t stride = padded(k_);
    std::fill_n(sums_, count * stride, 0.0f);
    for (std::int64_t rank = 0; rank < r_.adapter.rank && !context.cancelled(); rank += rank_part) {
      const std::int64_t ranks = std::min(rank_part, r_.adapter.rank - rank);
      const float* g = r_.g + first * rank_part;  // of the only part, or of the last one
      if (r_.adapter.rank > rank_part) {
        make_g(first, count, rank, ranks, own_g_);
        g = own_g_;
      }
      for (std::int64_t column = 0; column < k_; column += product_columns) {
        const std::int64_t columns = std::min(product_columns, k_ - column), width = whole_lanes(columns);
        for (std::int64_t r = 0; r < ranks; r += product_rows) {
          const std::int64_t depth = std::min(product_rows, ranks - r);
          for (std::int64_t j = 0; j < depth; ++j)
            gather(vectors_, pool_, r_.adapter.a + (rank + r + j) * k_ * unit_, unit_, column, columns, rows_ + j * width);
          vectors_.accumulate({g + r, rank_part, 1, rows_, width, sums_ + column, stride, nullptr, count, depth, width});
        }
      }
    }
    const Tensor& dx = call_.output(0);
    for (std::int64_t t = 0; t < count; ++t)
      store_product(row_pointer(dx, r_.order[first + t]), dx.dtype, dx.strides[1], 0, k_, r_.adapter.scale, false, sums_ + t * stride,
                    nullptr);
  }

 private:
  /// B^T dy.
  void make_g(std::int64_t first, std::int64_t count, std::int64_t rank, std::int64_t ranks, float* g) noexcept {
    const std::int64_t width = whole_lanes(ranks);
    for (std::int64_t t = 0; t < count; ++t) std::fill_n(g + t * rank_part, width, 0.0f);
    for (std::int64_t row = 0; row < n_; row += product_rows) {
      const std::int64_t depth = std::min(product_rows, n_ - row);
      for (std::int64_t j = 0; j < depth; ++j)
        gather(vectors_, pool_, r_.adapter.b + (row + j) * r_.adapter.rank * unit_, unit_, rank, ranks, rows_ + j * width);
      for (std::int64_t t = 0; t < count; ++t)
        gather(vectors_, dy_.dtype, row_pointer(dy_, r_.order[first + t]), dy_.strides[1], row, depth, weights_ + t * product_rows);
      vectors_.accumulate({weights_, product_rows, 1, rows_, width, g, rank_part, nullptr, count, depth, width});
    }
  }

  const Tensor &x_, &dy_, &dpool_;
  const Call& call_;
  const AdapterRows& r_;
  const Vectors& vectors_;
  quern_dtype pool_;
  std::int64_t unit_, k_, n_;
  float *buffer_, *x_rows_, *rows_, *weights_, *sums_, *own_g_;
};

void run_adapter(const Call& call, const AdapterRows& rows, const Layout& l, const Vectors& vectors, float* memory,
                 Context& context) noexcept {
  const std::int64_t k = call.input(0).dims[1], n = call.input(4).dims[1];
  const auto each_part = [&](std::int64_t count, const auto& body) {
    context.parallel(count, 1, [&](std::int64_t begin, std::int64_t end, std::uint32_t thread) {
      Part part(call, rows, l, vectors, memory + thread * l.size);
      for (std::int64_t i = begin; i < end; ++i) body(part, i);
    });
  };
  const std::int64_t a_parts = (k + product_columns - 1) / product_columns, b_parts = (n + product_rows - 1) / product_rows;
  for (std::int64_t rank = 0; rank < rows.adapter.rank && !context.cancelled(); rank += rank_part) {
    const std::int64_t ranks = std::min(rank_part, rows.adapter.rank - rank);
    each_part((rows.count + product_rows - 1) / product_rows, [&](Part& part, std::int64_t i) {
      part.make_low(i * product_rows, std::min(product_rows, rows.count - i * product_rows), rank, ranks);
    });
    // A and B of one adapter may lie over each other as well: first the one, then the other.
    each_part(a_parts, [&](Part& part, std::int64_t i) { part.make_da(i * product_columns, rank, ranks, context); });
    each_part(b_parts, [&](Part& part, std::int64_t i) { part.make_db(i * product_rows, rank, ranks, context); });
  }
  each_part((rows.count + dx_rows - 1) / dx_rows,
            [&](Part& part, std::int64_t i) { part.make_dx(i * dx_rows, std::min(dx_rows, rows.count - i * dx_rows), context); });
}

void clear(const Tensor& pool, Context& context) noexcept {
  context.parallel(pool.dims[0], 65536, [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    constexpr float zeros[map_part] = {};
    for (std::int64_t first = begin; first < end; first += map_part) store_row(pool, 0, first, std::min(map_part, end - first), zeros);
  });
}

template <Isa isa>
void run(const Call& call, Context& context) noexcept {
  const Tensor &slot = call.input(3), &dx = call.output(0);
  const std::int64_t slots = call.input(2).dims[0], n = call.input(4).dims[1];
  const Layout l = layout_of(call);
  const RowGroups groups = group_rows(
      slot, slots, context.scratch(), [&](std::int64_t row) { return call.row_live(row); },
      [&](std::int64_t value) {
        if (value != -1) context.fault(QUERN_FAULT_INDEX_RANGE);
      });
  auto* h = reinterpret_cast<float*>(context.scratch() + l.groups);
  float *g = h + l.low, *memory = g + l.low;
  if (call.integer(QUERN_KEY_ACCUMULATE) == 0) clear(call.output(1), context);
  for (std::int64_t row = 0; row < slot.dims[0]; ++row)
    if (const std::int64_t s = load_integer(slot, row); (s < 0 || s >= slots) && call.row_live(row)) store_zeros(dx, row);
  for (std::int64_t c = 0; c < groups.chosen_count && !context.cancelled(); ++c) {
    const std::int64_t chosen = groups.chosen[c], first = groups.first(chosen);
    AdapterRows rows{{}, groups.order + first, groups.count(chosen), h + first * rank_part, g + first * rank_part};
    if (read_adapter(call, chosen, n, rows.adapter)) {
      run_adapter(call, rows, l, vectors_of(isa), memory, context);
    } else {
      context.fault(QUERN_FAULT_INDEX_RANGE);
      for (std::int64_t i = 0; i < rows.count; ++i) store_zeros(dx, rows.order[i]);
    }
  }
}

constexpr Kernel kernels[] = {QUERN_CPU_KERNELS(QUERN_OP_LORA_MATMUL_BACKWARD, "lora_matmul_backward", accepts, run, scratch, true)};

}  // namespace

const std::span<const Kernel> lora_matmul_backward_kernels = kernels;

}  // namespace quern::cpu
