// The k largest of each row, best first. Kernel: rank_rows.
#include "ranking.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_top_k(const Call& call, Launcher& launcher) { launch_rank(call, call.integer(QUERN_KEY_K), false, launcher); }

}  // namespace

const Op top_k_op{QUERN_OP_TOP_K, "top_k.cuda", refuse_ranking, emit_top_k, scratch_ranking};

}  // namespace quern::cuda
