// top_k_mask, top_p_mask and min_p_mask: logits that a filter keeps, -inf elsewhere. What stays is what sample would draw from.
//
// NaN counts as -inf, as in argmax; a setting that keeps all (top_k_mask k <= 0, top_p_mask p >= 1, min_p_mask p <= 0) copies the
// row, NaN and all. The best logit is always kept, by min_p_mask too where p is above 1.
#pragma once

#include "logit_rows.hpp"
#include "ranking.hpp"
#include "tables.hpp"

namespace quern::cpu {

inline Verdict accepts_logit_masks(const Call& call) {
  const Tensor& x = call.input(0);
  if (x.last() > std::numeric_limits<std::int32_t>::max()) return Verdict::no("the rows of x are longer than an i32 counts");
  return check_logits(x, call.output(0));
}
inline std::uint64_t scratch_logit_masks(const Call& call) noexcept {
  return static_cast<std::uint64_t>(call.input(0).last()) * 4 * call.thread_count;
}

/// y may be x: each element is read before it is written.
inline void mask_row(const float* x, std::int64_t n, const FilterSettings& s, std::int32_t* ids, float* y) noexcept {
  if (s.top_k <= 0 && !(s.top_p < 1.0) && !(s.min_p > 0.0)) {
    std::copy_n(x, n, y);
    return;
  }
  Ranking ranking(x, n, ids);
  const std::span<std::int32_t> kept = ranking.best(ranking.size() == 0 ? 0 : count_kept(ranking, x, n, s));
  std::sort(kept.begin(), kept.end());
  std::int64_t at = 0;
  for (const std::int32_t id : kept) {
    std::fill(y + at, y + id, -std::numeric_limits<float>::infinity());
    y[id] = x[id];
    at = id + 1;
  }
  std::fill(y + at, y + n, -std::numeric_limits<float>::infinity());
}

template <typename Read>
void mask_rows(const Call& call, Context& context, const Read& read) noexcept {
  const Tensor &x = call.input(0), &y = call.output(0);
  const std::int64_t n = x.last();
  context.parallel(x.dims[0], 1, [&](std::int64_t begin, std::int64_t end, std::uint32_t thread) {
    auto* ids = reinterpret_cast<std::int32_t*>(context.scratch()) + thread * n;
    for (std::int64_t row = begin; row < end; ++row)
      if (call.row_live(row))
        mask_row(reinterpret_cast<const float*>(row_pointer(x, row)), n, read(row), ids, reinterpret_cast<float*>(row_pointer(y, row)));
  });
}

}  // namespace quern::cpu
