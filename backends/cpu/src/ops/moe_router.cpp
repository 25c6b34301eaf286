// The used best experts of each row of logits, and their weights. Scores are f64 until the weights are stored.
//
// Without a bias, experts are ordered by their logits, as scores rise with them: two that differ are never a tie. NaN counts as the
// least, as in argmax, and makes the weights of its row NaN under softmax. Scores that are all 0 give weights of 0.
#include "vectorised.hpp"

#include "../error.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace quern::cpu {
namespace {

enum { softmax_kind = 0, sigmoid_kind = 1 };

Verdict accepts(const OpCall& call) {
  const TensorView &logits = call.input(0), &bias = call.input(1), &id = call.output(0), &weight = call.output(1);
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
  if (kind != softmax_kind && kind != sigmoid_kind) return Verdict::no(concat("kind is ", kind, "; moe_router has 0 and 1"));
  if (Verdict v = check_dtype(id, "id", QUERN_I32); !v) return v;
  if (Verdict v = check_dtype(weight, "weight", QUERN_F32); !v) return v;
  if (Verdict v = check_rank(id, "id", 2); !v) return v;
  if (Verdict v = check_dim(id, "id", 0, logits.dims[0], "the rows of logits"); !v) return v;
  if (Verdict v = check_dim(id, "id", 1, used, "the attribute used"); !v) return v;
  return check_same_shape(id, "id", weight, "weight");
}

/// An expert's score, what it is chosen by, and the ids in their order: 24 bytes with the floats that the row is read into.
std::uint64_t scratch(const OpCall& call) noexcept {
  return static_cast<std::uint64_t>(row_length(call.input(0))) * 24 * call.thread_count;
}

void softmax(const float* x, std::int64_t n, double* score) noexcept {
  auto best = static_cast<double>(portable::vectors.maximum(x, n));
  if (best == -std::numeric_limits<double>::infinity()) best = 0.0;
  double sum = 0.0;
  for (std::int64_t i = 0; i < n; ++i) sum += score[i] = std::exp(static_cast<double>(x[i]) - best);
  if (sum == 0.0) return;
  for (std::int64_t i = 0; i < n; ++i) score[i] /= sum;
}

struct Router {
  std::int64_t experts, used;
  bool sigmoid, renormalise;
  double scale;
};

void route_row(const OpCall& call, const Router& r, std::int64_t row, double* score, double* key, float* x, std::int32_t* ids) noexcept {
  const TensorView &bias = call.input(1), &id = call.output(0), &weight = call.output(1);
  load_row(call.input(0), row, 0, r.experts, x);
  if (r.sigmoid)
    for (std::int64_t e = 0; e < r.experts; ++e) score[e] = 1.0 / (1.0 + std::exp(-static_cast<double>(x[e])));
  else
    softmax(x, r.experts, score);
  for (std::int64_t e = 0; e < r.experts; ++e) {
    key[e] = bias.present() ? score[e] + static_cast<double>(load_scalar(bias, e)) : static_cast<double>(x[e]);
    if (std::isnan(key[e])) key[e] = -std::numeric_limits<double>::infinity();
  }
  std::iota(ids, ids + r.experts, 0);
  std::partial_sort(ids, ids + r.used, ids + r.experts,
                    [key](std::int32_t a, std::int32_t b) { return key[a] != key[b] ? key[a] > key[b] : a < b; });
  double sum = 0.0;
  for (std::int64_t u = 0; u < r.used; ++u) sum += score[ids[u]];
  const double divisor = r.renormalise && sum != 0.0 ? sum : 1.0;
  for (std::int64_t u = 0; u < r.used; ++u) {
    const auto w = static_cast<float>(score[ids[u]] / divisor * r.scale);
    __builtin_memcpy(row_pointer(id, row) + u * id.strides[1], &ids[u], 4);
    __builtin_memcpy(row_pointer(weight, row) + u * weight.strides[1], &w, 4);
  }
}

void run(const OpCall& call, Context& context) noexcept {
  const Router r{row_length(call.input(0)), call.integer(QUERN_KEY_USED), call.integer(QUERN_KEY_KIND) == sigmoid_kind,
                 call.integer(QUERN_KEY_RENORMALISE) != 0, call.real(QUERN_KEY_SCALE)};
  context.parallel(call.input(0).dims[0], rows_a_part(r.experts), [&](std::int64_t begin, std::int64_t end, std::uint32_t thread) {
    auto* score = reinterpret_cast<double*>(context.scratch()) + thread * 3 * r.experts;
    auto* key = score + r.experts;
    auto* x = reinterpret_cast<float*>(key + r.experts);
    auto* ids = reinterpret_cast<std::int32_t*>(x + r.experts);
    for (std::int64_t row = begin; row < end; ++row)
      if (call.row_live(row)) route_row(call, r, row, score, key, x, ids);
  });
}

constexpr Kernel kernels[] = {{QUERN_OP_MOE_ROUTER, "moe_router.portable", Isa::baseline, accepts, run, scratch, true}};

}  // namespace

const std::span<const Kernel> moe_router_kernels = kernels;

}  // namespace quern::cpu
