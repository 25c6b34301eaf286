// Logits that a filter keeps, -inf elsewhere: those of at least p times the best one's probability. Kernel: mask_rows.
#include "ranking.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_min_p_mask(const Call& call, Launcher& launcher) { launch_mask(call, mask_min_p, launcher); }

}  // namespace

const Op min_p_mask_op{QUERN_OP_MIN_P_MASK, "min_p_mask.cuda", refuse_ranking, emit_min_p_mask, scratch_ranking};

}  // namespace quern::cuda
