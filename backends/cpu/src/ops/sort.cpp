// A stable sort of each row.
#include "sort_rows.hpp"

namespace quern::cpu {
namespace {

void run_sort(const Call& call, Context& context) noexcept {
  sort_rows(call, context, call.input(0).last(), call.integer(QUERN_KEY_DESCENDING) != 0);
}

constexpr Kernel kernels_sort[] = {{QUERN_OP_SORT, "sort.portable", Isa::baseline, accepts_sorted_rows, run_sort, scratch_sort_rows}};

}  // namespace

const std::span<const Kernel> sort_kernels = kernels_sort;

}  // namespace quern::cpu
