// What ops that rank the elements of rows share: each has the same scratch, and the same limit.
#pragma once

#include "../kernels/ranking.hpp"
#include "../op.hpp"

namespace quern::cuda {

std::uint64_t scratch_ranking(const Call& call);
std::string refuse_ranking(const Call& call);
/// The first `k` of each row.
void launch_rank(const Call& call, std::int64_t k, bool ascending, Launcher& launcher);
/// Logits that a filter keeps, -inf elsewhere.
void launch_mask(const Call& call, MaskKind kind, Launcher& launcher);

}  // namespace quern::cuda
