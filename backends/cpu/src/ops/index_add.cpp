// table[index[i]] += x[i], in the order of i.
#include "write_rows.hpp"

namespace quern::cpu {
namespace {

constexpr Kernel kernels_index_add[] = {
    {QUERN_OP_INDEX_ADD, "index_add.portable", Isa::baseline, accepts_any, write_rows<true>, nullptr, true}};

}  // namespace

const std::span<const Kernel> index_add_kernels = kernels_index_add;

}  // namespace quern::cpu
