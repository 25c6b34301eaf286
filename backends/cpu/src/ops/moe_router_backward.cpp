// Gradient of moe_router for the logits, through the scores of the chosen experts, in f64.
//
// A weight is scale * score / (renormalise ? sum of the chosen scores : 1). The choice has no gradient, so bias has none. An id of -1 is
// skipped; another one out of range too, and raises INDEX_RANGE. Chosen scores that are all 0 were not renormalised.
#include "moe_scores.hpp"
#include "vectorised.hpp"

namespace quern::cpu {
namespace {

/// The scores and their gradients, f64, and the logits as f32.
std::uint64_t scratch_moe_router_backward(const Call& call) noexcept {
  return static_cast<std::uint64_t>((call.input(0).last() + 1) / 2 * 2) * 20 * call.thread_count;
}

void route_back(const Call& call, std::int64_t row, double* score, double* dscore, float* x, Context& context) noexcept {
  const Tensor &id = call.input(2), &dweight = call.input(3);
  const std::int64_t experts = call.input(0).last(), used = id.dims[1];
  const bool sigmoid = call.integer(QUERN_KEY_KIND) == router_sigmoid;
  load_row(call.input(0), row, 0, experts, x);
  make_scores(x, experts, sigmoid, score);
  std::fill_n(dscore, experts, 0.0);
  double sum = 0.0, inner = 0.0;
  const auto each_chosen = [&](const auto& body) {
    for (std::int64_t u = 0; u < used; ++u)
      if (const std::int64_t e = load_integer(id, row * used + u); e >= 0 && e < experts)
        body(e, static_cast<double>(load_scalar(dweight, row * used + u)));
      else if (e != -1) context.fault(QUERN_FAULT_INDEX_RANGE);
  };
  each_chosen([&](std::int64_t e, double dw) {
    sum += score[e];
    inner += dw * score[e];
  });
  const bool divided = call.integer(QUERN_KEY_RENORMALISE) != 0 && sum != 0.0;
  const double factor = call.real(QUERN_KEY_SCALE) / (divided ? sum : 1.0), shift = divided ? inner / sum : 0.0;
  each_chosen([&](std::int64_t e, double dw) { dscore[e] += factor * (dw - shift); });
  double all = 0.0;
  if (!sigmoid)
    for (std::int64_t e = 0; e < experts; ++e) all += score[e] * dscore[e];
  for (std::int64_t e = 0; e < experts; ++e) {
    const double slope = sigmoid ? dscore[e] * (1.0 - score[e]) : dscore[e] - all;
    x[e] = static_cast<float>(score[e] * slope);
  }
  store_row(call.output(0), row, 0, experts, x);
}

void run_moe_router_backward(const Call& call, Context& context) noexcept {
  const std::int64_t experts = call.input(0).last(), room = (experts + 1) / 2 * 2;
  context.parallel(call.input(0).dims[0], rows_a_part(experts), [&](std::int64_t begin, std::int64_t end, std::uint32_t thread) {
    auto* score = reinterpret_cast<double*>(context.scratch() + static_cast<std::int64_t>(thread) * room * 20);
    auto* x = reinterpret_cast<float*>(score + 2 * room);
    for (std::int64_t row = begin; row < end; ++row)
      if (call.row_live(row)) route_back(call, row, score, score + room, x, context);
  });
}

constexpr Kernel kernels_moe_router_backward[] = {{QUERN_OP_MOE_ROUTER_BACKWARD, "moe_router_backward.portable", Isa::baseline, accepts_any,
                                                   run_moe_router_backward, scratch_moe_router_backward, true}};

}  // namespace

const std::span<const Kernel> moe_router_backward_kernels = kernels_moe_router_backward;

}  // namespace quern::cpu
