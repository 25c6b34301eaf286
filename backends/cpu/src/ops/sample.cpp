// Draws a token a row: top-k, top-p, min-p, temperature, then u from Philox over the kept tokens from best to worst.
//
// Tokens are ordered by logit, then by id, and ranked only as far as is needed: a usual draw looks at a few of 100,000, a greedy one
// (temperature 0) at the maximum. Probabilities are f64. A row's draw depends on its logits, settings, seed and step alone.
#include "logit_rows.hpp"
#include "ranking.hpp"
#include "vectorised.hpp"

#include "../philox.hpp"

#include <algorithm>

namespace quern::cpu {
namespace {

enum { temperature_param = 0, top_k_param = 1, top_p_param = 2, min_p_param = 3, param_count = 8 };

Verdict accepts(const Call& call) {
  const Tensor& x = call.input(0);
  if (!has_packed_rows(x)) return Verdict::no("the rows of x are not packed");
  if (x.last() > std::numeric_limits<std::int32_t>::max()) return Verdict::no("the rows of x are longer than an i32 counts");
  return Verdict::yes();
}

std::uint64_t scratch(const Call& call) noexcept { return static_cast<std::uint64_t>(call.input(0).last()) * 8 * call.thread_count; }

/// The first token whose logit is `greatest`, the row's maximum; 0 if all are -inf or NaN.
std::int32_t best_token(const float* x, std::int64_t n, float greatest) noexcept {
  if (greatest == -std::numeric_limits<float>::infinity()) return 0;
  return static_cast<std::int32_t>(std::find(x, x + n, greatest) - x);
}

std::int32_t draw(const float* x, std::int64_t n, std::int32_t* ids, const FilterSettings& s, double u) noexcept {
  Ranking ranking(x, n, ids);
  if (ranking.size() == 0) return 0;
  const std::int32_t best = ranking.at(0);
  const std::int64_t kept = count_kept(ranking, x, n, s);
  const double limit = u * total_weight(ranking, x, n, kept, s.temperature);
  double sum = 0.0;
  for (std::int64_t i = 0; i < kept; ++i) {
    sum += token_weight(x, ranking.at(i), best, s.temperature);
    if (sum > limit) return ranking.at(i);
  }
  return ranking.at(kept - 1);
}

template <Isa isa>
void run(const Call& call, Context& context) noexcept {
  const Vectors& vectors = vectors_of(isa);
  const Tensor &x = call.input(0), &params = call.input(1), &seed = call.input(2), &token = call.output(0), &logprob = call.output(1);
  const std::int64_t n = x.last();
  context.parallel(x.dims[0], 1, [&](std::int64_t begin, std::int64_t end, std::uint32_t thread) {
    auto* ids = reinterpret_cast<std::int32_t*>(context.scratch()) + thread * 2 * n;
    auto* powers = reinterpret_cast<float*>(ids + n);
    for (std::int64_t row = begin; row < end; ++row) {
      if (!call.row_live(row)) continue;
      const auto* logits = reinterpret_cast<const float*>(row_pointer(x, row));
      float p[param_count];
      load_row(params, row, 0, param_count, p);
      const FilterSettings s{static_cast<double>(p[temperature_param]), static_cast<double>(p[top_p_param]),
                             static_cast<double>(p[min_p_param]),
                             p[top_k_param] >= 1.0f && p[top_k_param] < 2147483648.0f ? static_cast<std::int64_t>(p[top_k_param]) : 0};
      const std::array<std::uint32_t, 2> key = {static_cast<std::uint32_t>(load_integer(seed, row * 2)),
                                                static_cast<std::uint32_t>(load_integer(seed, row * 2 + 1))};
      const double u = philox_unit(philox({static_cast<std::uint32_t>(load_integer(call.input(3), row)), 0, 0, 0}, key)[0]);
      float best = vectors.maximum(logits, n);
      const std::int32_t chosen = s.temperature > 0.0 ? draw(logits, n, ids, s, u) : best_token(logits, n, best);
      if (best == -std::numeric_limits<float>::infinity()) best = 0.0f;
      float sum = vectors.exp_sum(logits, best, n, powers);
      if (std::isnan(sum)) {  // a NaN counts as -inf here too
        std::transform(logits, logits + n, powers, [](float v) { return std::isnan(v) ? -std::numeric_limits<float>::infinity() : v; });
        sum = vectors.exp_sum(powers, best, n, powers);
      }
      const float log_probability = logits[chosen] - best - std::log(sum);
      __builtin_memcpy(bytes_of(token) + row * token.strides[0], &chosen, 4);
      __builtin_memcpy(bytes_of(logprob) + row * logprob.strides[0], &log_probability, 4);
    }
  });
}

constexpr Kernel kernels[] = {QUERN_CPU_KERNELS(QUERN_OP_SAMPLE, "sample", accepts, run, scratch, true)};

}  // namespace

const std::span<const Kernel> sample_kernels = kernels;

}  // namespace quern::cpu
