// Declares every table of this folder: `<name>_kernels`, a span over rows. The build lists them in cpu_op_tables.def.
#pragma once

#include "../kernel.hpp"

namespace quern::cpu {

#define QUERN_CPU_TABLE(name) extern const std::span<const Kernel> name##_kernels;
#include "cpu_op_tables.def"
#undef QUERN_CPU_TABLE

// A row's `with` (quern_formats.h) in parentheses, spread to the arguments of a macro.
#define QUERN_CPU_SPREAD(...) __VA_ARGS__
#define QUERN_CPU_EXPAND(macro, ...) macro(__VA_ARGS__)

}  // namespace quern::cpu
