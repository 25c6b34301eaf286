// Logits that a filter keeps, -inf elsewhere: the k best. Kernel: mask_rows.
#include "ranking.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_top_k_mask(const Call& call, Launcher& launcher) { launch_mask(call, mask_top_k, launcher); }

}  // namespace

const Op top_k_mask_op{QUERN_OP_TOP_K_MASK, "top_k_mask.cuda", refuse_ranking, emit_top_k_mask, scratch_ranking};

}  // namespace quern::cuda
