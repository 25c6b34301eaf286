// Tokens of a row of logits from best to worst, and how many of them top-k, top-p and min-p keep: shared by sample and the masks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>

namespace quern::cpu {

/// Orders tokens by logit, then by falling id.
struct Worse {
  const float* x;
  bool operator()(std::int32_t a, std::int32_t b) const noexcept { return x[a] != x[b] ? x[a] < x[b] : a > b; }
};

/// Tokens of a row from best to worst. NaN counts as -inf; tokens at -inf are never given.
///
/// Of a long row only tokens at or above a bound are ranked at first, those that a usual draw needs: the row is cut into chunks, and
/// the bound is the 64th best chunk's maximum, so that 64 tokens at least reach it. Whoever asks for more gets all of them ranked.
class Ranking {
 public:
  Ranking(const float* x, std::int64_t n, std::int32_t* ids) noexcept : worse_{x}, n_(n), ids_(ids) {
    for (std::int64_t i = 0; i < n; ++i) size_ += x[i] > -std::numeric_limits<float>::infinity() ? 1 : 0;
    rank(n >= 4 * first_rank * chunk ? bound() : -std::numeric_limits<float>::infinity());
  }
  std::int64_t size() const noexcept { return size_; }
  /// The i-th best, i < size(). Given ones collect at the end of the array, the best last.
  std::int32_t at(std::int64_t i) noexcept {
    if (i >= end_ - ids_) rank(-std::numeric_limits<float>::infinity());
    while (end_ - heap_ <= i) {
      std::pop_heap(ids_, heap_, worse_);
      --heap_;
    }
    return end_[-1 - i];
  }
  /// The `count` best, worst first, count <= size(); the caller may put them in another order when it is done with the ranking.
  std::span<std::int32_t> best(std::int64_t count) noexcept {
    if (count > 0) at(count - 1);
    return {end_ - count, end_};
  }

 private:
  static constexpr std::int64_t first_rank = 64, chunk = 64;

  /// A heap of the tokens at or above `bound`.
  void rank(float bound) noexcept {
    heap_ = ids_;
    for (std::int64_t i = 0; i < n_; ++i)
      if (worse_.x[i] >= bound && worse_.x[i] > -std::numeric_limits<float>::infinity()) *heap_++ = static_cast<std::int32_t>(i);
    end_ = heap_;
    std::make_heap(ids_, heap_, worse_);
  }
  /// Of whole chunks. The array of ids is not in use yet and holds their maxima.
  float bound() noexcept {
    const std::int64_t chunks = n_ / chunk;
    auto* maxima = reinterpret_cast<float*>(ids_);
    for (std::int64_t c = 0; c < chunks; ++c) {
      float best[4];  // four chains: a maximum waits for the one before
      std::fill_n(best, 4, -std::numeric_limits<float>::infinity());
      for (const float* x = worse_.x + c * chunk; x < worse_.x + (c + 1) * chunk; x += 4)
        for (int i = 0; i < 4; ++i) best[i] = x[i] > best[i] ? x[i] : best[i];
      const float value = std::max(std::max(best[0], best[1]), std::max(best[2], best[3]));
      __builtin_memcpy(maxima + c, &value, 4);
    }
    std::nth_element(maxima, maxima + first_rank - 1, maxima + chunks, std::greater<float>());
    float value;
    __builtin_memcpy(&value, maxima + first_rank - 1, 4);
    return value;
  }

  Worse worse_;
  std::int64_t n_, size_ = 0;
  std::int32_t *ids_, *heap_ = nullptr, *end_ = nullptr;
};

/// Filters as in OPS.md's sample: top_k <= 0, top_p >= 1 and min_p <= 0 keep all, and so does a NaN.
struct FilterSettings {
  double temperature = 1.0, top_p = 1.0, min_p = 0.0;
  std::int64_t top_k = 0;
};

/// exp((x - best) / temperature) of a token.
inline double token_weight(const float* x, std::int32_t id, std::int32_t best, double temperature) noexcept {
  return x[id] == x[best] ? 1.0 : std::exp((static_cast<double>(x[id]) - static_cast<double>(x[best])) / temperature);
}

/// Sum of the weights of the `kept` best. All of them are added in the order of ids, which needs no ranking.
inline double total_weight(Ranking& ranking, const float* x, std::int64_t n, std::int64_t kept, double temperature) noexcept {
  const std::int32_t best = ranking.at(0);
  double total = 0.0;
  if (kept < ranking.size()) {
    for (std::int64_t i = 0; i < kept; ++i) total += token_weight(x, ranking.at(i), best, temperature);
    return total;
  }
  for (std::int64_t i = 0; i < n; ++i)
    if (x[i] > -std::numeric_limits<float>::infinity()) total += token_weight(x, static_cast<std::int32_t>(i), best, temperature);
  return total;
}

/// How many of the best stay: top-k, then top-p over what is left, then min-p. The best one always does; size() > 0.
inline std::int64_t count_kept(Ranking& ranking, const float* x, std::int64_t n, const FilterSettings& s) noexcept {
  std::int64_t kept = ranking.size();
  if (s.top_k > 0) kept = std::min(kept, s.top_k);
  const std::int32_t best = ranking.at(0);
  if (s.top_p < 1.0) {
    const double enough = s.top_p * total_weight(ranking, x, n, kept, 1.0);
    double sum = 0.0;
    for (std::int64_t i = 0; i < kept; ++i) {
      sum += token_weight(x, ranking.at(i), best, 1.0);
      if (sum >= enough) kept = i + 1;
    }
  }
  if (s.min_p > 0.0)
    for (std::int64_t i = 1; i < kept; ++i)
      if (token_weight(x, ranking.at(i), best, 1.0) < s.min_p) kept = i;
  return kept;
}

}  // namespace quern::cpu
