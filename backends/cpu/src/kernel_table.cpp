// The list of kernel tables: one an op file. Order between files does not matter; within a file the first match runs.
#include "kernel.hpp"

#include "ops/tables.hpp"

namespace quern::cpu {

std::span<const std::span<const Kernel>> kernel_tables() noexcept {
  static const std::span<const Kernel> tables[] = {
#define QUERN_CPU_TABLE(name) name##_kernels,
#include "cpu_op_tables.def"
#undef QUERN_CPU_TABLE
  };
  return tables;
}

}  // namespace quern::cpu
