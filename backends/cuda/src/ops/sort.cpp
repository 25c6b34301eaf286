// Each row in order. Kernel: rank_rows.
#include "ranking.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_sort(const Call& call, Launcher& launcher) {
  launch_rank(call, call.input(0).last(), call.integer(QUERN_KEY_DESCENDING) == 0, launcher);
}

}  // namespace

const Op sort_op{QUERN_OP_SORT, "sort.cuda", refuse_ranking, emit_sort, scratch_ranking};

}  // namespace quern::cuda
