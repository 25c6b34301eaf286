// Declares every table of tables.def: `<name>_kernels`, a span over the rows of ops/<name>.cpp.
#pragma once

#include "../kernel.hpp"

namespace quern::cpu {

#define QUERN_CPU_TABLE(name) extern const std::span<const Kernel> name##_kernels;
#include "tables.def"
#undef QUERN_CPU_TABLE

}  // namespace quern::cpu
