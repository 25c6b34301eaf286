// What attention_dense and its gradient share: the checks of their tensors and which keys a query sees.
#pragma once

#include "../kernel.hpp"

#include <algorithm>
#include <cmath>

namespace quern::cpu {

/// [b, heads, t, u], which a mask broadcasts to.
inline Tensor score_shape(const Tensor& q, const Tensor& k) noexcept {
  Tensor s;
  s.rank = 4;
  s.dims[0] = q.dims[0];
  s.dims[1] = q.dims[2];
  s.dims[2] = q.dims[1];
  s.dims[3] = k.dims[1];
  return s;
}

/// Keys [first, end) are visible to query `query` by causality and window; neither falls as `query` rises.
struct KeyRange {
  std::int64_t first, end;
};
inline KeyRange visible_keys(const Call& call, std::int64_t query, std::int64_t keys) noexcept {
  const std::int64_t at = query + call.integer(QUERN_KEY_QUERY_OFFSET), window = call.integer(QUERN_KEY_WINDOW);
  const std::int64_t end = call.integer(QUERN_KEY_CAUSAL) != 0 ? std::min(at + 1, keys) : keys;
  return {window > 0 ? std::clamp<std::int64_t>(at - window + 1, 0, end) : 0, end};
}

}  // namespace quern::cpu
