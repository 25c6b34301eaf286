// Logits that a filter keeps, -inf elsewhere: the k best.
#include "logit_masks.hpp"

namespace quern::cpu {
namespace {

void run_top_k_mask(const Call& call, Context& context) noexcept {
  mask_rows(call, context, [&](std::int64_t row) { return FilterSettings{.top_k = load_integer(call.input(1), row)}; });
}

constexpr Kernel kernels_top_k_mask[] = {
    {QUERN_OP_TOP_K_MASK, "top_k_mask.portable", Isa::baseline, accepts_logit_masks, run_top_k_mask, scratch_logit_masks, true}};

}  // namespace

const std::span<const Kernel> top_k_mask_kernels = kernels_top_k_mask;

}  // namespace quern::cpu
