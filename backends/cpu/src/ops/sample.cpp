// Draws a token a row: top-k, top-p, min-p, temperature, then u from Philox over the kept tokens from best to worst.
//
// Tokens are ordered by logit, then by id, through a heap that gives only as many as are needed: a usual draw looks at a few
// of 100,000. Probabilities are f64. A row's draw depends on its logits, settings, seed and step alone.
#include "vectorised.hpp"

#include "../error.hpp"
#include "../philox.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace quern::cpu {
namespace {

enum { temperature_param = 0, top_k_param = 1, top_p_param = 2, min_p_param = 3, param_count = 8 };

Verdict check_row_vector(const TensorView& view, const char* name, quern_dtype dtype, std::int64_t rows) {
  if (Verdict v = check_dtype(view, name, dtype); !v) return v;
  if (Verdict v = check_rank(view, name, 1); !v) return v;
  return check_dim(view, name, 0, rows, "the rows of x");
}

Verdict accepts(const OpCall& call) {
  const TensorView &x = call.input(0), &params = call.input(1), &seed = call.input(2);
  if (Verdict v = check_dtype(x, "x", QUERN_F32); !v) return v;
  if (Verdict v = check_rank(x, "x", 2); !v) return v;
  if (!rows_are_packed(x)) return Verdict::no("the rows of x are not packed");
  if (row_length(x) < 1 || (x.ranged & 2u) != 0 || row_length(x) > std::numeric_limits<std::int32_t>::max())
    return Verdict::invalid(concat("x is ", describe(x), "; its rows have a fixed length of at least 1"));
  if (Verdict v = check_dtype(params, "params", QUERN_F32); !v) return v;
  if (Verdict v = check_rank(params, "params", 2); !v) return v;
  if (Verdict v = check_dim(params, "params", 0, x.dims[0], "the rows of x"); !v) return v;
  if (Verdict v = check_dim(params, "params", 1, param_count, "the number of settings"); !v) return v;
  if (Verdict v = check_dtype(seed, "seed", QUERN_U32); !v) return v;
  if (Verdict v = check_rank(seed, "seed", 2); !v) return v;
  if (Verdict v = check_dim(seed, "seed", 0, x.dims[0], "the rows of x"); !v) return v;
  if (Verdict v = check_dim(seed, "seed", 1, 2, "two words"); !v) return v;
  if (Verdict v = check_row_vector(call.input(3), "step", QUERN_I32, x.dims[0]); !v) return v;
  if (Verdict v = check_row_vector(call.output(0), "token", QUERN_I32, x.dims[0]); !v) return v;
  return check_row_vector(call.output(1), "logprob", QUERN_F32, x.dims[0]);
}

std::uint64_t scratch(const OpCall& call) noexcept { return static_cast<std::uint64_t>(row_length(call.input(0))) * 8 * call.thread_count; }

struct Worse {
  const float* x;
  bool operator()(std::int32_t a, std::int32_t b) const noexcept { return x[a] != x[b] ? x[a] < x[b] : a > b; }
};

/// Tokens of a row from best to worst. NaN counts as -inf; tokens at -inf are never given.
class Ranking {
 public:
  Ranking(const float* x, std::int64_t n, std::int32_t* ids) noexcept : worse_{x}, ids_(ids), heap_(ids) {
    for (std::int64_t i = 0; i < n; ++i)
      if (x[i] > -std::numeric_limits<float>::infinity()) *heap_++ = static_cast<std::int32_t>(i);
    size_ = heap_ - ids_;
    end_ = heap_;
    std::make_heap(ids_, heap_, worse_);
  }
  std::int64_t size() const noexcept { return size_; }
  /// The i-th best, i < size(). Given ones collect at the end of the array, the best last.
  std::int32_t at(std::int64_t i) noexcept {
    while (end_ - heap_ <= i) {
      std::pop_heap(ids_, heap_, worse_);
      --heap_;
    }
    return end_[-1 - i];
  }

 private:
  Worse worse_;
  std::int32_t *ids_, *heap_, *end_;
  std::int64_t size_;
};

struct Settings {
  double temperature, top_p, min_p;
  std::int64_t top_k;
};

/// exp((x - best) / temperature) of a token.
double weight(const float* x, std::int32_t id, std::int32_t best, double temperature) noexcept {
  return id == best ? 1.0 : std::exp((static_cast<double>(x[id]) - static_cast<double>(x[best])) / temperature);
}

/// Sum of the weights of the `kept` best. All of them are added in the order of ids, which needs no ranking.
double total_weight(Ranking& ranking, const float* x, std::int64_t n, std::int64_t kept, double temperature) noexcept {
  const std::int32_t best = ranking.at(0);
  double total = 0.0;
  if (kept < ranking.size()) {
    for (std::int64_t i = 0; i < kept; ++i) total += weight(x, ranking.at(i), best, temperature);
    return total;
  }
  for (std::int64_t i = 0; i < n; ++i)
    if (x[i] > -std::numeric_limits<float>::infinity()) total += weight(x, static_cast<std::int32_t>(i), best, temperature);
  return total;
}

/// How many of the best stay: top-k, then top-p over what is left, then min-p.
std::int64_t count_kept(Ranking& ranking, const float* x, std::int64_t n, const Settings& s) noexcept {
  std::int64_t kept = ranking.size();
  if (s.top_k > 0) kept = std::min(kept, s.top_k);
  const std::int32_t best = ranking.at(0);
  if (s.top_p < 1.0) {
    const double enough = s.top_p * total_weight(ranking, x, n, kept, 1.0);
    double sum = 0.0;
    for (std::int64_t i = 0; i < kept; ++i) {
      sum += weight(x, ranking.at(i), best, 1.0);
      if (sum >= enough) kept = i + 1;
    }
  }
  if (s.min_p > 0.0)
    for (std::int64_t i = 1; i < kept; ++i)
      if (weight(x, ranking.at(i), best, 1.0) < s.min_p) kept = i;
  return kept;
}

std::int32_t draw(const float* x, std::int64_t n, std::int32_t* ids, const Settings& s, double u) noexcept {
  Ranking ranking(x, n, ids);
  if (ranking.size() == 0) return 0;
  const std::int32_t best = ranking.at(0);
  if (!(s.temperature > 0.0)) return best;
  const std::int64_t kept = count_kept(ranking, x, n, s);
  const double limit = u * total_weight(ranking, x, n, kept, s.temperature);
  double sum = 0.0;
  for (std::int64_t i = 0; i < kept; ++i) {
    sum += weight(x, ranking.at(i), best, s.temperature);
    if (sum > limit) return ranking.at(i);
  }
  return ranking.at(kept - 1);
}

template <Isa isa>
void run(const OpCall& call, Context& context) noexcept {
  const Vectors& vectors = vectors_of(isa);
  const TensorView &x = call.input(0), &params = call.input(1), &seed = call.input(2), &token = call.output(0), &logprob = call.output(1);
  const std::int64_t n = row_length(x);
  context.parallel(x.dims[0], 1, [&](std::int64_t begin, std::int64_t end, std::uint32_t thread) {
    auto* ids = reinterpret_cast<std::int32_t*>(context.scratch()) + thread * 2 * n;
    auto* powers = reinterpret_cast<float*>(ids + n);
    for (std::int64_t row = begin; row < end; ++row) {
      if (!call.row_live(row)) continue;
      const auto* logits = reinterpret_cast<const float*>(row_pointer(x, row));
      float p[param_count];
      load_row(params, row, 0, param_count, p);
      const Settings s{static_cast<double>(p[temperature_param]), static_cast<double>(p[top_p_param]), static_cast<double>(p[min_p_param]),
                       p[top_k_param] >= 1.0f && p[top_k_param] < 2147483648.0f ? static_cast<std::int64_t>(p[top_k_param]) : 0};
      const std::array<std::uint32_t, 2> key = {static_cast<std::uint32_t>(load_integer(seed, row * 2)), static_cast<std::uint32_t>(load_integer(seed, row * 2 + 1))};
      const double u = philox_unit(philox({static_cast<std::uint32_t>(load_integer(call.input(3), row)), 0, 0, 0}, key)[0]);
      const std::int32_t chosen = draw(logits, n, ids, s, u);
      float best = vectors.maximum(logits, n);
      if (best == -std::numeric_limits<float>::infinity()) best = 0.0f;
      const float sum = vectors.exp_sum(logits, best, n, powers);
      const float log_probability = logits[chosen] - best - std::log(sum);
      __builtin_memcpy(token.data + row * token.strides[0], &chosen, 4);
      __builtin_memcpy(logprob.data + row * logprob.strides[0], &log_probability, 4);
    }
  });
}

constexpr Kernel kernels[] = {QUERN_CPU_KERNELS(QUERN_OP_SAMPLE, "sample", accepts, run, scratch, true)};

}  // namespace

const std::span<const Kernel> sample_kernels = kernels;

}  // namespace quern::cpu
