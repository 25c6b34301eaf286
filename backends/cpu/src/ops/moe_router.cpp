// The used best experts of each row of logits, and their weights. Scores are f64 until the weights are stored.
//
// Without a bias, experts are ordered by their logits, as scores rise with them: two that differ are never a tie. NaN counts as the
// least, as in argmax, and makes the weights of its row NaN under softmax. Scores that are all 0 give weights of 0.
#include "moe_scores.hpp"
#include "vectorised.hpp"

#include <algorithm>
#include <numeric>

namespace quern::cpu {
namespace {

/// An expert's score, what it is chosen by, and the ids in their order: 24 bytes with the floats that the row is read into.
std::uint64_t scratch_moe_router(const Call& call) noexcept {
  return static_cast<std::uint64_t>(call.input(0).last()) * 24 * call.thread_count;
}

struct Router {
  std::int64_t experts, used;
  bool sigmoid, renormalise;
  double scale;
};

void route_row(const Call& call, const Router& r, std::int64_t row, double* score, double* key, float* x, std::int32_t* ids) noexcept {
  const Tensor &bias = call.input(1), &id = call.output(0), &weight = call.output(1);
  load_row(call.input(0), row, 0, r.experts, x);
  make_scores(x, r.experts, r.sigmoid, score);
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

void run_moe_router(const Call& call, Context& context) noexcept {
  const Router r{call.input(0).last(), call.integer(QUERN_KEY_USED), call.integer(QUERN_KEY_KIND) == router_sigmoid,
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

constexpr Kernel kernels_moe_router[] = {
    {QUERN_OP_MOE_ROUTER, "moe_router.portable", Isa::baseline, accepts_any, run_moe_router, scratch_moe_router, true}};

}  // namespace

const std::span<const Kernel> moe_router_kernels = kernels_moe_router;

}  // namespace quern::cpu
