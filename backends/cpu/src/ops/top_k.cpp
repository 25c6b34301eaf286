// The k largest of each row, best first.
#include "sort_rows.hpp"

namespace quern::cpu {
namespace {

void run_top_k(const Call& call, Context& context) noexcept { sort_rows(call, context, call.integer(QUERN_KEY_K), true); }

constexpr Kernel kernels_top_k[] = {{QUERN_OP_TOP_K, "top_k.portable", Isa::baseline, accepts_sorted_rows, run_top_k, scratch_sort_rows}};

}  // namespace

const std::span<const Kernel> top_k_kernels = kernels_top_k;

}  // namespace quern::cpu
