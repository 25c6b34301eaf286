// Rows of softmax(mask(softcap(scale * x))), with sinks.
//
// A row's sum runs in 16 lanes and blocks of 4096, so a vocabulary-sized row keeps its accuracy and its bits do not depend on
// other rows. Hidden elements are replaced before any arithmetic on them; a row with nothing visible is all zeros.
#include "alibi.hpp"
#include "vectorised.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace quern::cpu {
namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

std::uint64_t scratch_softmax(const Call& call) noexcept {
  return static_cast<std::uint64_t>(call.input(0).last()) * 8 * call.thread_count;
}

struct Settings {
  float scale, cap;
  double max_bias;
  bool causal;
  std::int64_t query_offset, window;
};

/// a + b, held inside the range of the type.
std::int64_t held_sum(std::int64_t a, std::int64_t b) noexcept {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a < 0 ? std::numeric_limits<std::int64_t>::min() : std::numeric_limits<std::int64_t>::max();
}

/// The row with everything applied; what is hidden is -inf.
void make_scores(const Call& call, const Vectors& vectors, const Settings& s, std::int64_t row, float* scores, float* mask_row) noexcept {
  const Tensor &x = call.input(0), &mask = call.input(1);
  const std::int64_t n = x.last(), queries = std::max<std::int64_t>(1, x.dim_from_end(1)),
                     heads = std::max<std::int64_t>(1, x.dim_from_end(2));
  const std::int64_t query = row % queries, head = row / queries % heads;
  const std::int64_t end = s.causal ? std::clamp<std::int64_t>(held_sum(s.query_offset, query + 1), 0, n) : n;
  const std::int64_t first = s.window > 0 ? std::clamp<std::int64_t>(held_sum(held_sum(s.query_offset, -s.window), query + 1), 0, end) : 0;
  load_row(x, row, 0, n, scores);
  std::fill(scores, scores + first, minus_infinity);
  std::fill(scores + end, scores + n, minus_infinity);
  for (std::int64_t i = first; i < end; ++i) scores[i] *= s.scale;
  if (s.cap > 0.0f) vectors.softcap(scores + first, s.cap, end - first, scores + first);
  if (!mask.present()) return;
  load_floats(broadcast_row_pointer(mask, x, row), mask.dtype, mask.stride_from_end(0), 0, n, mask_row);
  const float slope = alibi_slope(s.max_bias, head, heads);
  for (std::int64_t i = first; i < end; ++i) scores[i] = mask_row[i] == minus_infinity ? minus_infinity : scores[i] + slope * mask_row[i];
}

template <Isa isa>
void run_softmax(const Call& call, Context& context) noexcept {
  const Vectors& vectors = vectors_of(isa);
  const Tensor &x = call.input(0), &sinks = call.input(2), &y = call.output(0);
  const std::int64_t n = x.last(), queries = std::max<std::int64_t>(1, x.dim_from_end(1)),
                     heads = std::max<std::int64_t>(1, x.dim_from_end(2));
  const Settings s{static_cast<float>(call.real(QUERN_KEY_SCALE)),
                   static_cast<float>(call.real(QUERN_KEY_SOFTCAP)),
                   call.real(QUERN_KEY_MAX_BIAS),
                   call.integer(QUERN_KEY_CAUSAL) != 0,
                   call.integer(QUERN_KEY_QUERY_OFFSET),
                   call.integer(QUERN_KEY_WINDOW)};
  context.parallel(x.rows(), rows_a_part(n), [&](std::int64_t begin, std::int64_t end, std::uint32_t thread) {
    float *scores = reinterpret_cast<float*>(context.scratch()) + thread * 2 * n, *mask_row = scores + n;
    for (std::int64_t row = begin; row < end; ++row) {
      make_scores(call, vectors, s, row, scores, mask_row);
      float best = vectors.maximum(scores, n), extra = 0.0f;
      if (best == minus_infinity) best = 0.0f;  // nothing visible, or only NaN beside it
      if (sinks.present()) {
        const float sink = load_scalar(sinks, row / queries % heads);
        best = std::max(best, sink);
        extra = std::exp(sink - best);
      }
      const float sum = vectors.exp_sum(scores, best, n, scores);
      if (sum == 0.0f) std::fill(scores, scores + n, 0.0f);
      else vectors.scale(scores, 1.0f / (sum + extra), n, scores);
      store_row(y, row, 0, n, scores);
    }
  });
}

constexpr Kernel kernels_softmax[] = {QUERN_CPU_KERNELS(QUERN_OP_SOFTMAX, "softmax", accepts_any, run_softmax, scratch_softmax, false)};

}  // namespace

const std::span<const Kernel> softmax_kernels = kernels_softmax;

}  // namespace quern::cpu
