// The scores of experts, and the checks that moe_router and its gradient share.
#pragma once

#include "../kernel.hpp"
#include "../simd/vectors.hpp"

#include <cmath>
#include <limits>

namespace quern::cpu {

enum { router_softmax = 0, router_sigmoid = 1 };

inline Verdict check_router(const OpCall& call, const TensorView& logits, const TensorView& bias, const char* op) {
  if (Verdict v = check_dtype(logits, "logits", QUERN_F32); !v) return v;
  if (Verdict v = check_rank(logits, "logits", 2); !v) return v;
  if (bias.present()) {
    if (Verdict v = check_dtype(bias, "bias", QUERN_F32); !v) return v;
    if (Verdict v = check_rank(bias, "bias", 1); !v) return v;
    if (Verdict v = check_dim(bias, "bias", 0, logits.dims[1], "the experts of logits"); !v) return v;
  }
  const std::int64_t used = call.integer(QUERN_KEY_USED), kind = call.integer(QUERN_KEY_KIND);
  if (used < 1 || used > logits.dims[1] || (logits.ranged & 2u) != 0 || logits.dims[1] > std::numeric_limits<std::int32_t>::max())
    return Verdict::invalid(concat("used is ", used, " for logits of ", describe(logits), "; it is 1 to a fixed number of experts"));
  if (kind != router_softmax && kind != router_sigmoid) return Verdict::no(concat("kind is ", kind, "; ", op, " has 0 and 1"));
  return Verdict::yes();
}

/// id and what has its shape, `weight`.
inline Verdict check_chosen(const OpCall& call, const TensorView& logits, const TensorView& id, const TensorView& weight,
                            const char* name) {
  if (Verdict v = check_dtype(id, "id", QUERN_I32); !v) return v;
  if (Verdict v = check_dtype(weight, name, QUERN_F32); !v) return v;
  if (Verdict v = check_rank(id, "id", 2); !v) return v;
  if (Verdict v = check_dim(id, "id", 0, logits.dims[0], "the rows of logits"); !v) return v;
  if (Verdict v = check_dim(id, "id", 1, call.integer(QUERN_KEY_USED), "the attribute used"); !v) return v;
  return check_same_shape(id, "id", weight, name);
}

/// score = softmax(x), or sigmoid of each. Logits that are all -inf have scores of 0.
inline void make_scores(const float* x, std::int64_t n, bool sigmoid, double* score) noexcept {
  if (sigmoid) {
    for (std::int64_t i = 0; i < n; ++i) score[i] = 1.0 / (1.0 + std::exp(-static_cast<double>(x[i])));
    return;
  }
  auto best = static_cast<double>(portable::vectors.maximum(x, n));
  if (best == -std::numeric_limits<double>::infinity()) best = 0.0;
  double sum = 0.0;
  for (std::int64_t i = 0; i < n; ++i) sum += score[i] = std::exp(static_cast<double>(x[i]) - best);
  if (sum == 0.0) return;
  for (std::int64_t i = 0; i < n; ++i) score[i] /= sum;
}

}  // namespace quern::cpu
