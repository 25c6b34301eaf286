// y is made in strips of 32 columns: a strip of b is packed once, a block of gemm_depth of k at a time, and all rows of a pass over it.
//
//   rows     at most 1,020 at a time; their panels are packed first, on all threads, up to 8 Mi floats of them
//   slabs    where k is longer than that, k goes in slabs, and the sums of all strips wait in scratch between them
//   order    a sum goes along k in blocks of gemm_depth from 0 on, whatever rows, slabs and threads there are
#include "matmul_blocked.hpp"

#include "matmul_epilogue.hpp"

#include <cstring>

namespace quern::cpu {
namespace {

constexpr std::int64_t most_blocked_rows = 1020,
                       most_rows_a_part = 288;                      // rows whose panels are packed; that pass over a strip in one part
constexpr std::int64_t most_packed_floats = std::int64_t{1} << 23;  // floats of packed a
constexpr std::int64_t least_blocked_rows = 32;
static_assert(most_blocked_rows % gemm_rows == 0 && most_rows_a_part % gemm_rows == 0);

std::int64_t whole_panels(std::int64_t n, std::int64_t to) noexcept { return (n + to - 1) / to * to; }

/// A matrix [lanes, k] as panels are packed from it.
struct PanelSource {
  const std::byte* data;
  quern_dtype dtype;
  bool along_k;
  std::int64_t lane_stride, k_stride;

  /// Lanes first .. of k .. k + depth, and where the panel behind it is.
  GemmPanel panel(std::int64_t first, std::int64_t count, std::int64_t width, std::int64_t k, std::int64_t depth, float* out,
                  std::int64_t next_lanes, std::int64_t next_k) const noexcept {
    if (along_k)
      return {
          dtype, data + first * lane_stride, lane_stride, true, k, count, width, depth, out, next_lanes * lane_stride + next_k * k_stride};
    return {dtype, data + k * k_stride, k_stride, false, first, count, width, depth, out};
  }
};

bool lies_along(const Tensor& view, bool last_dim) noexcept {
  return last_dim ? has_packed_rows(view) : is_float(view.dtype) && view.stride_from_end(1) == unit_bytes(view.dtype);
}
PanelSource source_of(const Tensor& view, const std::byte* data, bool transposed) noexcept {
  const std::int64_t lane = view.stride_from_end(transposed ? 0 : 1), k = view.stride_from_end(transposed ? 1 : 0);
  return {data, view.dtype, lies_along(view, !transposed), lane, k};
}
bool has_source(const Tensor& view) noexcept { return lies_along(view, true) || lies_along(view, false); }

/// What a call of these sizes needs at most; grows with each of them.
struct BlockedLayout {
  std::int64_t packed, part, sums;  // floats: of a; of a thread's strip of b and its sums; of sums between slabs
};
BlockedLayout blocked_layout(const MatmulShape& s) noexcept {
  const std::int64_t rows = whole_panels(std::min(s.m, most_blocked_rows), gemm_rows), k = std::max<std::int64_t>(1, s.k);
  const bool slabs = rows * k > most_packed_floats;
  return {std::min(rows * k, most_packed_floats), gemm_depth * gemm_columns + std::min(rows, most_rows_a_part) * gemm_columns,
          slabs ? rows * whole_panels(s.n, gemm_columns) : 0};
}

/// One product of matrices.
class BlockedProduct {
 public:
  BlockedProduct(const Call& call, const MatmulShape& shape, std::int64_t batch, Context& context, const Vectors& vectors) noexcept
      : call_(call),
        shape_(shape),
        batch_(batch),
        context_(context),
        vectors_(vectors),
        layout_(blocked_layout(shape)),
        a_(source_of(call.input(0), matmul_batch(call.input(0), call.input(0), batch), shape.a_transposed)),
        b_(source_of(call.input(1), matmul_batch(call.input(1), call.input(0), batch), shape.b_transposed)),
        strips_((shape.n + gemm_columns - 1) / gemm_columns) {
    parts_ = reinterpret_cast<float*>(context.scratch());
    packed_ = parts_ + layout_.part * context.thread_count();
    sums_ = packed_ + layout_.packed;
  }

  /// Rows first .. first + rows of y.
  void run(std::int64_t first, std::int64_t rows) noexcept {
    first_ = first;
    rows_ = rows;
    panels_ = (rows + gemm_rows - 1) / gemm_rows;
    const std::int64_t whole = panels_ * gemm_rows * shape_.k;
    const std::int64_t slab = whole <= most_packed_floats ? shape_.k : most_packed_floats / (panels_ * gemm_rows) / gemm_depth * gemm_depth;
    slabs_ = slab < shape_.k;
    for (std::int64_t k = 0; k == 0 || k < shape_.k; k += std::max<std::int64_t>(1, slab)) {
      pack_rows(k, std::min(slab, shape_.k - k));
      multiply(k, std::min(slab, shape_.k - k));
    }
  }

 private:
  /// Panels of a of one block of k lie together, blocks in order.
  void pack_rows(std::int64_t k, std::int64_t depth) noexcept {
    const std::int64_t blocks = (depth + gemm_depth - 1) / gemm_depth;
    context_.parallel(blocks * panels_, 4, [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t at = i / panels_ * gemm_depth, here = std::min(gemm_depth, depth - at), row = i % panels_ * gemm_rows;
        float* out = packed_ + at * panels_ * gemm_rows + row * here;
        vectors_.pack_panel(a_.panel(first_ + row, std::min(gemm_rows, rows_ - row), gemm_rows, k + at, here, out, gemm_rows, 0));
      }
    });
  }

  void multiply(std::int64_t k, std::int64_t depth) noexcept {
    // Parts enough for every thread; a strip is packed once for each part of its rows.
    const std::int64_t wanted = strips_ >= 2 * context_.thread_count() ? 1 : 2 * context_.thread_count() / strips_;
    const std::int64_t least = (rows_ + most_rows_a_part - 1) / most_rows_a_part;
    const std::int64_t together = (panels_ + std::max(wanted, least) - 1) / std::max(wanted, least),
                       pieces = (panels_ + together - 1) / together;
    context_.parallel(strips_ * pieces, 1, [&](std::int64_t begin, std::int64_t end, std::uint32_t thread) {
      float *strip = parts_ + thread * layout_.part, *own = strip + gemm_depth * gemm_columns;
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t panel = i % pieces * together, panels = std::min(together, panels_ - panel), row = panel * gemm_rows;
        const std::int64_t column = i / pieces * gemm_columns, columns = std::min(gemm_columns, shape_.n - column);
        float* sums = slabs_ ? sums_ + (i / pieces * panels_ * gemm_rows + row) * gemm_columns : own;
        if (shape_.k == 0) std::fill_n(sums, panels * gemm_rows * gemm_columns, 0.0f);
        for (std::int64_t at = 0; at < depth; at += gemm_depth) {
          const std::int64_t here = std::min(gemm_depth, depth - at);
          const bool last = at + here == depth;  // of this strip
          vectors_.pack_panel(b_.panel(column, columns, gemm_columns, k + at, here, strip, last ? gemm_columns : 0, last ? -at : here));
          vectors_.gemm({packed_ + at * panels_ * gemm_rows + row * here, strip, here, panels, k + at == 0, sums});
        }
        if (k + depth == shape_.k) finish(sums, first_ + row, std::min(rows_ - row, panels * gemm_rows), column, columns);
      }
    });
  }

  void finish(float* sums, std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) const noexcept {
    const Tensor &c = call_.input(3), &y = call_.output(0);
    const auto packed = [](const Tensor& view) {
      return view.dtype == QUERN_F32 && has_packed_rows(view) && view.stride_from_end(1) % 4 == 0;
    };
    if (!packed(y) || call_.input(2).present() || (c.present() && !packed(c)))
      return matmul_finish(call_, sums, gemm_columns, batch_, row, rows, column, columns);
    const auto alpha = static_cast<float>(call_.real(QUERN_KEY_ALPHA)), beta = static_cast<float>(call_.real(QUERN_KEY_BETA));
    const auto at = [&](const Tensor& view) {
      return reinterpret_cast<float*>(matmul_batch(view, call_.input(0), batch_) + row * view.stride_from_end(1)) + column;
    };
    float *to = at(y), *other = c.present() ? at(c) : nullptr;
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* from = sums + r * gemm_columns;
      float* out = to + r * (y.stride_from_end(1) / 4);
      if (other != nullptr) vectors_.combine(from, alpha, other + r * (c.stride_from_end(1) / 4), beta, columns, out);
      else if (alpha != 1.0f) vectors_.scale(from, alpha, columns, out);
      else if (columns == gemm_columns) std::memcpy(out, from, gemm_columns * sizeof(float));
      else std::copy_n(from, columns, out);
    }
  }

  const Call& call_;
  const MatmulShape& shape_;
  std::int64_t batch_;
  Context& context_;
  const Vectors& vectors_;
  BlockedLayout layout_;
  PanelSource a_, b_;
  std::int64_t strips_, first_ = 0, rows_ = 0, panels_ = 0;
  bool slabs_ = false;
  float *parts_, *packed_, *sums_;
};

}  // namespace

Verdict blocked_verdict(const Call& call) {
  const MatmulShape s = matmul_shape(call);
  if (call.invariant) return Verdict::no("results must not depend on the batch, and blocks of k are for many rows only");
  if (s.m < least_blocked_rows) return Verdict::no(concat("the product is small: ", s.m, " x ", s.n, " x ", s.k));
  if (!has_source(call.input(0)) || !has_source(call.input(1))) return Verdict::no("an operand is packed along neither dimension");
  return Verdict::yes();
}

std::uint64_t blocked_scratch(const Call& call) noexcept {
  const BlockedLayout layout = blocked_layout(matmul_shape(call));
  return static_cast<std::uint64_t>(layout.packed + layout.part * call.thread_count + layout.sums) * 4;
}

void multiply_in_blocks(const Call& call, Context& context, const Vectors& vectors) noexcept {
  const MatmulShape s = matmul_shape(call);
  if (s.n == 0) return;
  for (std::int64_t batch = 0; batch < s.batches; ++batch) {
    BlockedProduct product(call, s, batch, context, vectors);
    for (std::int64_t row = 0; row < s.m && !context.cancelled(); row += most_blocked_rows)
      product.run(row, std::min(most_blocked_rows, s.m - row));
  }
}

}  // namespace quern::cpu
