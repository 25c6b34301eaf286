// table[index[i]] = x[i], encoded; of duplicates the last wins.
#include "write_rows.hpp"

namespace quern::cpu {
namespace {

constexpr Kernel kernels_set_rows[] = {
    {QUERN_OP_SET_ROWS, "set_rows.portable", Isa::baseline, accepts_any, write_rows<false>, nullptr, true}};

}  // namespace

const std::span<const Kernel> set_rows_kernels = kernels_set_rows;

}  // namespace quern::cpu
