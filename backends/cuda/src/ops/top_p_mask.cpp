// Logits that a filter keeps, -inf elsewhere: the fewest best whose probabilities reach p. Kernel: mask_rows.
#include "ranking.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_top_p_mask(const Call& call, Launcher& launcher) { launch_mask(call, mask_top_p, launcher); }

}  // namespace

const Op top_p_mask_op{QUERN_OP_TOP_P_MASK, "top_p_mask.cuda", refuse_ranking, emit_top_p_mask, scratch_ranking};

}  // namespace quern::cuda
