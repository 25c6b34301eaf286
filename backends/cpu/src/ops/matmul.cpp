// y = alpha * a b^T + bias + beta * c. Weights b of any format, f32 sums in one fixed order (simd/matmul.cpp).
//
// The rows of b are cut into parts of 8 and more; a thread computes all tokens of its part. Activations that are not packed f32 rows
// of a multiple of 32 are first copied so, with zeros behind, into scratch. Rows of b that are not packed along k are
// copied part by part, which keeps the order of summation; transposed blocks are decoded so. Bias, c, alpha and another dtype of y are applied to the part in scratch.
#include "matmul_blocked.hpp"
#include "matmul_epilogue.hpp"
#include "matmul_openblas.hpp"
#include "matmul_rows.hpp"

namespace quern::cpu {
namespace {

bool packs_a(const Call& call, const MatmulShape& s) noexcept {
  const Tensor& a = call.input(0);
  return s.a_transposed || !activations_fit(a, a.stride_from_end(1), s.k);
}
bool packs_b(const Call& call, const MatmulShape& s) noexcept { return s.b_transposed || !has_packed_rows(call.input(1)); }

/// Blocks of b lie along its rows, and those are transposed.
bool turns_blocks(const Call& call, const MatmulShape& s) noexcept { return s.b_transposed && is_block(call.input(1).dtype); }

/// Floats of scratch that one thread has, and where its parts start.
struct ThreadScratch {
  std::int64_t decode = 0, weights = 0, outputs = 0, size = 0;
};
ThreadScratch thread_scratch(const Call& call, const MatmulShape& s) noexcept {
  ThreadScratch t;
  t.decode = matmul_buffer_floats();
  t.weights = t.decode + (turns_blocks(call, s) ? gemm_depth * gemm_columns : 0);
  t.outputs = t.weights + (packs_b(call, s) ? max_part * padded(s.k) : 0);
  t.size = (t.outputs + (matmul_stages_y(call) ? max_part * std::min(s.m, max_tokens) : 0) + 15) / 16 * 16;
  return t;
}

std::uint64_t scratch_matmul(const Call& call) noexcept {
  const MatmulShape s = matmul_shape(call);
  const std::int64_t activations = packs_a(call, s) ? s.m * padded(s.k) : 0;
  return static_cast<std::uint64_t>(activations + thread_scratch(call, s).size * call.thread_count) * 4;
}

/// Copies activations to rows of padded(k) f32 with zeros behind.
void pack_a(const Call& call, const MatmulShape& s, const std::byte* a_data, float* to, Context& context, const Vectors& vectors) noexcept {
  const Tensor& a = call.input(0);
  const std::int64_t length = padded(s.k), row_stride = a.stride_from_end(s.a_transposed ? 0 : 1),
                     k_stride = a.stride_from_end(s.a_transposed ? 1 : 0);
  context.parallel(s.m, rows_a_part(length), [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    for (std::int64_t t = begin; t < end; ++t) pack_activations(vectors, a.dtype, a_data + t * row_stride, k_stride, s.k, to + t * length);
  });
}

/// Columns first .. first + part.rows of blocks as rows of padded(k) floats at `copy`, by way of a panel; `first` is a multiple of 32.
void set_turned_blocks(MatmulPart& part, const Tensor& b, const std::byte* data, std::int64_t first, float* panel, float* copy,
                       const Vectors& vectors) noexcept {
  const std::int64_t stride = b.stride_from_end(1), length = padded(part.k);
  for (std::int64_t column = 0; column < part.rows; column += gemm_columns) {
    const std::int64_t columns = std::min(gemm_columns, part.rows - column);
    for (std::int64_t k = 0; k < part.k; k += gemm_depth) {
      const std::int64_t depth = std::min(gemm_depth, part.k - k);
      vectors.pack_panel({b.dtype, data + k * stride, stride, false, first + column, columns, gemm_columns, depth, panel});
      for (std::int64_t c = 0; c < columns; ++c)
        for (std::int64_t i = 0; i < depth; ++i) copy[(column + c) * length + k + i] = panel[i * gemm_columns + c];
    }
  }
  for (std::int64_t c = 0; c < part.rows; ++c) std::fill(copy + c * length + part.k, copy + (c + 1) * length, 0.0f);
  part.dtype = QUERN_F32;
  part.w = reinterpret_cast<const std::byte*>(copy);
  part.w_stride = length * 4;
}

void one_batch(const Call& call, const MatmulShape& s, std::int64_t batch, Context& context, const Vectors& vectors) noexcept {
  const Tensor &a = call.input(0), &b = call.input(1), &y = call.output(0);
  const std::byte *a_data = matmul_batch(a, a, batch), *b_data = matmul_batch(b, a, batch);
  const ThreadScratch layout = thread_scratch(call, s);
  auto* activations = reinterpret_cast<float*>(context.scratch()) + layout.size * context.thread_count();
  const bool copy_a = packs_a(call, s), copy_b = packs_b(call, s), turned = turns_blocks(call, s), stage = matmul_stages_y(call);
  if (copy_a) pack_a(call, s, a_data, activations, context, vectors);

  MatmulPart whole{};
  whole.a = copy_a ? activations : reinterpret_cast<const float*>(a_data);
  whole.a_stride = copy_a ? padded(s.k) : a.stride_from_end(1) / 4;
  whole.k = s.k;
  const std::int64_t fits = part_rows(s.k, s.m, s.n, context.thread_count()),
                     part = turned ? std::max(fits, gemm_columns) / gemm_columns * gemm_columns : fits, parts = (s.n + part - 1) / part;
  const std::int64_t k_stride = b.stride_from_end(s.b_transposed ? 1 : 0), row_stride = b.stride_from_end(s.b_transposed ? 0 : 1);
  context.parallel(parts, 1, [&](std::int64_t begin, std::int64_t end, std::uint32_t thread) {
    float* own = reinterpret_cast<float*>(context.scratch()) + layout.size * thread;
    for (std::int64_t i = begin; i < end; ++i) {
      MatmulPart p = whole;
      const std::int64_t first = i * part;
      p.rows = std::min(part, s.n - first);
      p.buffer = own;
      if (turned) set_turned_blocks(p, b, b_data, first, own + layout.decode, own + layout.weights, vectors);
      else set_weights(p, b.dtype, b_data, row_stride, k_stride, first, copy_b ? own + layout.weights : nullptr);
      const std::int64_t step = stage ? max_tokens : std::max<std::int64_t>(1, s.m);
      for (std::int64_t t = 0; t < s.m && !context.cancelled(); t += step) {
        p.tokens = std::min(step, s.m - t);
        p.a = whole.a + t * whole.a_stride;
        p.y = stage ? own + layout.outputs : reinterpret_cast<float*>(matmul_batch(y, a, batch) + t * y.stride_from_end(1)) + first;
        p.y_stride = stage ? p.rows : y.stride_from_end(1) / 4;
        vectors.matmul(p);
        if (stage) matmul_finish(call, p.y, p.rows, batch, t, p.tokens, first, p.rows);
      }
    }
  });
}

template <Isa isa>
void run_matmul(const Call& call, Context& context) noexcept {
  const MatmulShape s = matmul_shape(call);
  for (std::int64_t batch = 0; batch < s.batches && !context.cancelled(); ++batch) one_batch(call, s, batch, context, vectors_of(isa));
}

/// Two tokens are a product of a matrix and a vector or two: the library packs more than it multiplies there.
Verdict accepts_openblas(const Call& call) { return call.input(1).dtype == QUERN_F32 ? openblas_verdict(call) : Verdict::not_mine(); }

template <Isa isa>
void run_openblas(const Call& call, Context& context) noexcept {
  if (matmul_shape(call).m < openblas_min_tokens) return run_matmul<isa>(call, context);
  multiply_by_openblas(call, context);
}

std::uint64_t scratch_blocked(const Call& call) noexcept { return std::max(scratch_matmul(call), blocked_scratch(call)); }

/// A plan is for up to so many tokens; of few, panels would be packed for nothing.
template <Isa isa>
void run_blocked(const Call& call, Context& context) noexcept {
  const MatmulShape s = matmul_shape(call);
  if (s.m < 8 && !s.a_transposed && !s.b_transposed) return run_matmul<isa>(call, context);
  multiply_in_blocks(call, context, vectors_of(isa));
}

constexpr Kernel kernels_matmul[] = {
    QUERN_CPU_KERNELS(QUERN_OP_MATMUL, "matmul.blocked", blocked_verdict, run_blocked, scratch_blocked, false),
    {QUERN_OP_MATMUL, "matmul.f32.openblas", Isa::avx2, accepts_openblas, run_openblas<Isa::avx2>, scratch_matmul},
    QUERN_CPU_WEIGHTS(QUERN_OP_MATMUL, "matmul", accepts_any, run_matmul, scratch_matmul),
};

}  // namespace

const std::span<const Kernel> matmul_kernels = kernels_matmul;

}  // namespace quern::cpu
