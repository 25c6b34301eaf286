// y is cut into blocks of tokens and rows of b; each is one single-threaded sgemm on a thread of the pool.
//
// A block is at most 2^28 multiply-adds (about 10 ms), so that a run can be cancelled. The library's order of summation depends on
// the sizes, so results are repeatable but a row's bits depend on its batch: `deterministic` and invariant nodes do without it.
#include "matmul_openblas.hpp"

#include "../openblas.hpp"
#include "matmul_shape.hpp"

#include <algorithm>
#include <limits>

namespace quern::cpu {
namespace {

/// Leading dimension in floats, if the library can take this matrix as it lies.
bool fits_library(const Tensor& view) noexcept {
  const std::int64_t stride = view.stride_from_end(1);
  return view.dtype == QUERN_F32 && has_packed_rows(view) && stride % 4 == 0 && stride / 4 >= std::max<std::int64_t>(1, view.last()) &&
         stride / 4 <= std::numeric_limits<std::int32_t>::max();
}
int leading(const Tensor& view) noexcept { return static_cast<int>(view.stride_from_end(1) / 4); }

/// y lies over c: the library multiplies it by beta and adds to it.
bool adds_to_c(const Call& call) noexcept { return call.input(3).present() && call.input(3).data == call.output(0).data; }

void add_rows(const Call& call, std::int64_t batch, std::int64_t first_token, std::int64_t tokens, std::int64_t first,
              std::int64_t rows) noexcept {
  const Tensor &a = call.input(0), &bias = call.input(2), &c = call.input(3), &y = call.output(0);
  const auto beta = static_cast<float>(call.real(QUERN_KEY_BETA));
  constexpr std::int64_t part = 256;
  float other[part];
  for (std::int64_t t = first_token; t < first_token + tokens; ++t) {
    auto* out = reinterpret_cast<float*>(matmul_batch(y, a, batch) + t * y.stride_from_end(1)) + first;
    for (std::int64_t r = 0; r < rows; r += part) {
      const std::int64_t n = std::min(part, rows - r);
      if (bias.present()) {
        load_floats(bytes_of(bias), bias.dtype, bias.stride_from_end(0), first + r, n, other);
        for (std::int64_t i = 0; i < n; ++i) out[r + i] += other[i];
      }
      if (c.present() && !adds_to_c(call)) {
        load_floats(matmul_batch(c, a, batch) + t * c.stride_from_end(1), c.dtype, c.stride_from_end(0), first + r, n, other);
        for (std::int64_t i = 0; i < n; ++i) out[r + i] += beta * other[i];
      }
    }
  }
}

}  // namespace

Verdict openblas_verdict(const Call& call) {
  const MatmulShape s = matmul_shape(call);
  if (call.invariant) return Verdict::no("results must not depend on the batch, and the library's order of summation does");
  if (s.m < openblas_min_tokens || s.n < 32 || s.k < 32) return Verdict::no(concat("the product is small: ", s.m, " x ", s.n, " x ", s.k));
  if (!fits_library(call.input(0)) || !fits_library(call.input(1)) || !fits_library(call.output(0)))
    return Verdict::no("a, b or y is not f32 in packed rows");
  if (std::max({s.m, s.n, s.k}) > std::numeric_limits<std::int32_t>::max()) return Verdict::no("a dimension is above 2^31");
  if (const OpenBlas& library = openblas(); library.sgemm == nullptr) return Verdict::no(library.reason);
  return Verdict::yes();
}

void multiply_by_openblas(const Call& call, Context& context) noexcept {
  constexpr int row_major = 101, plain = 111, transposed = 112;
  const Tensor &a = call.input(0), &b = call.input(1), &y = call.output(0);
  const MatmulShape s = matmul_shape(call);
  const auto alpha = static_cast<float>(call.real(QUERN_KEY_ALPHA)),
             beta = adds_to_c(call) ? static_cast<float>(call.real(QUERN_KEY_BETA)) : 0.0f;
  const OpenBlas& library = openblas();
  const std::int64_t rows =
      std::clamp<std::int64_t>((s.n + context.thread_count() - 1) / context.thread_count(), std::min<std::int64_t>(s.n, 32), 4096);
  const std::int64_t tokens = std::clamp<std::int64_t>((std::int64_t{1} << 28) / std::max<std::int64_t>(1, rows * s.k), 32, s.m);
  const std::int64_t across = (s.n + rows - 1) / rows, down = (s.m + tokens - 1) / tokens;
  context.parallel(s.batches * down * across, 1, [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t batch = i / (down * across), first_token = i / across % down * tokens, first = i % across * rows;
      const std::int64_t m = std::min(tokens, s.m - first_token), n = std::min(rows, s.n - first);
      const auto* from_a = reinterpret_cast<const float*>(matmul_batch(a, a, batch)) + first_token * (s.a_transposed ? 1 : leading(a));
      const auto* from_b = reinterpret_cast<const float*>(matmul_batch(b, a, batch)) + first * (s.b_transposed ? 1 : leading(b));
      auto* to = reinterpret_cast<float*>(matmul_batch(y, a, batch)) + first_token * leading(y) + first;
      library.sgemm(row_major, s.a_transposed ? transposed : plain, s.b_transposed ? plain : transposed, static_cast<int>(m),
                    static_cast<int>(n), static_cast<int>(s.k), alpha, from_a, leading(a), from_b, leading(b), beta, to, leading(y));
      if (call.input(2).present() || call.input(3).present()) add_rows(call, batch, first_token, m, first, n);
    }
  });
}

}  // namespace quern::cpu
