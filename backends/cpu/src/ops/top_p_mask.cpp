// Logits that a filter keeps, -inf elsewhere: the fewest best whose probabilities reach p.
#include "logit_masks.hpp"

namespace quern::cpu {
namespace {

void run_top_p_mask(const Call& call, Context& context) noexcept {
  mask_rows(call, context, [&](std::int64_t row) { return FilterSettings{.top_p = static_cast<double>(load_scalar(call.input(1), row))}; });
}

constexpr Kernel kernels_top_p_mask[] = {
    {QUERN_OP_TOP_P_MASK, "top_p_mask.portable", Isa::baseline, accepts_logit_masks, run_top_p_mask, scratch_logit_masks, true}};

}  // namespace

const std::span<const Kernel> top_p_mask_kernels = kernels_top_p_mask;

}  // namespace quern::cpu
