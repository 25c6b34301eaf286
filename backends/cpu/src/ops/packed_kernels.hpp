// Rows of a kernel table for packed weights: each format on each instruction set that has its layout.
#pragma once

#include "tables.hpp"

#include "../packed/packed.hpp"

namespace quern::cpu {

// accepts<dtype, isa>, run<isa> and scratch<isa> are templates where a table names these rows. with: (op, name).
#define QUERN_CPU_PACKED_OF(FORMAT, format, isa, op, name) \
  {op, name "." #format ".packed." #isa, Isa::isa, accepts<QUERN_##FORMAT, Isa::isa>, run<Isa::isa>, scratch<Isa::isa>, false, true},
#define QUERN_CPU_PACKED(FORMAT, format, isa, with) QUERN_CPU_EXPAND(QUERN_CPU_PACKED_OF, FORMAT, format, isa, QUERN_CPU_SPREAD with)
#define QUERN_CPU_PACKED_FLOATS(FORMAT, format, with) \
  QUERN_CPU_PACKED(FORMAT, format, avx512, with) QUERN_CPU_PACKED(FORMAT, format, avx2, with)
#define QUERN_CPU_PACKED_BLOCKS(FORMAT, format, with) \
  QUERN_CPU_PACKED(FORMAT, format, amx, with) QUERN_CPU_PACKED_FLOATS(FORMAT, format, with)
/// QUERN_CPU_PACKED_KERNELS((QUERN_OP_MATMUL, "matmul"))
#define QUERN_CPU_PACKED_KERNELS(with) \
  QUERN_CPU_PACKED_FLOATS(F32, f32, with) \
  QUERN_CPU_PACKED_FLOATS(F16, f16, with) \
  QUERN_CPU_PACKED_FLOATS(BF16, bf16, with) \
  QUERN_CPU_PACKED_FORMATS(QUERN_CPU_PACKED_BLOCKS, with) QUERN_CPU_CODED_FORMATS(QUERN_CPU_PACKED_FLOATS, with)

}  // namespace quern::cpu
