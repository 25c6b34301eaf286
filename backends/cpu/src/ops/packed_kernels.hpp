// Rows of a kernel table for packed weights: each format on each instruction set that has its layout.
#pragma once

#include "tables.hpp"

namespace quern::cpu {

// accepts<dtype, isa>, run<isa> and scratch<isa> are templates where a table names these rows.
#define QUERN_CPU_PACKED(op, name, dtype, format, isa) \
  { op, name "." format ".packed." #isa, Isa::isa, accepts<dtype, Isa::isa>, run<Isa::isa>, scratch<Isa::isa>, false, true }
#define QUERN_CPU_PACKED_FLOATS(op, name, dtype, format) \
  QUERN_CPU_PACKED(op, name, dtype, format, avx512), QUERN_CPU_PACKED(op, name, dtype, format, avx2)
#define QUERN_CPU_PACKED_BLOCKS(op, name, dtype, format) \
  QUERN_CPU_PACKED(op, name, dtype, format, amx), QUERN_CPU_PACKED_FLOATS(op, name, dtype, format)
/// QUERN_CPU_PACKED_KERNELS(QUERN_OP_MATMUL, "matmul")
#define QUERN_CPU_PACKED_KERNELS(op, name) \
  QUERN_CPU_PACKED_FLOATS(op, name, QUERN_F32, "f32"), QUERN_CPU_PACKED_FLOATS(op, name, QUERN_F16, "f16"), \
      QUERN_CPU_PACKED_FLOATS(op, name, QUERN_BF16, "bf16"), QUERN_CPU_PACKED_BLOCKS(op, name, QUERN_Q4_0, "q4_0"), \
      QUERN_CPU_PACKED_BLOCKS(op, name, QUERN_Q4_1, "q4_1"), QUERN_CPU_PACKED_BLOCKS(op, name, QUERN_Q5_0, "q5_0"), \
      QUERN_CPU_PACKED_BLOCKS(op, name, QUERN_Q5_1, "q5_1"), QUERN_CPU_PACKED_BLOCKS(op, name, QUERN_Q8_0, "q8_0"), \
      QUERN_CPU_PACKED_BLOCKS(op, name, QUERN_Q4_K, "q4_k"), QUERN_CPU_PACKED_BLOCKS(op, name, QUERN_Q5_K, "q5_k"), \
      QUERN_CPU_PACKED_BLOCKS(op, name, QUERN_Q6_K, "q6_k"), QUERN_CPU_PACKED_BLOCKS(op, name, QUERN_Q4_Z32, "q4_z32"), \
      QUERN_CPU_PACKED_BLOCKS(op, name, QUERN_Q4_Z64, "q4_z64"), QUERN_CPU_PACKED_BLOCKS(op, name, QUERN_Q4_Z128, "q4_z128"), \
      QUERN_CPU_PACKED_BLOCKS(op, name, QUERN_Q8_Z32, "q8_z32"), QUERN_CPU_PACKED_BLOCKS(op, name, QUERN_Q8_Z128, "q8_z128"), \
      QUERN_CPU_PACKED_BLOCKS(op, name, QUERN_Q8_128, "q8_128"), QUERN_CPU_PACKED_FLOATS(op, name, QUERN_F8_128, "f8_128"), \
      QUERN_CPU_PACKED_FLOATS(op, name, QUERN_NF4_64, "nf4_64"), QUERN_CPU_PACKED_FLOATS(op, name, QUERN_FP4_64, "fp4_64")

}  // namespace quern::cpu
