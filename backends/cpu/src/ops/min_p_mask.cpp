// Logits that a filter keeps, -inf elsewhere: those of at least p times the best one's probability.
#include "logit_masks.hpp"

namespace quern::cpu {
namespace {

void run_min_p_mask(const Call& call, Context& context) noexcept {
  mask_rows(call, context, [&](std::int64_t row) { return FilterSettings{.min_p = static_cast<double>(load_scalar(call.input(1), row))}; });
}

constexpr Kernel kernels_min_p_mask[] = {
    {QUERN_OP_MIN_P_MASK, "min_p_mask.portable", Isa::baseline, accepts_logit_masks, run_min_p_mask, scratch_logit_masks, true}};

}  // namespace

const std::span<const Kernel> min_p_mask_kernels = kernels_min_p_mask;

}  // namespace quern::cpu
