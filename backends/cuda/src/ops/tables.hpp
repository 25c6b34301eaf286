// The tables of all op files: QUERN_CUDA_OPS(family), which the build lists in cuda_op_tables.def. Order does not matter.
#pragma once

#include "../op.hpp"

namespace quern::cuda {

#define QUERN_CUDA_OPS(family) extern const std::span<const Op> family##_ops;
#include "cuda_op_tables.def"
#undef QUERN_CUDA_OPS

inline std::span<const std::span<const Op>> op_tables() noexcept {
  static const std::span<const Op> tables[] = {
#define QUERN_CUDA_OPS(family) family##_ops,
#include "cuda_op_tables.def"
#undef QUERN_CUDA_OPS
  };
  return tables;
}

}  // namespace quern::cuda
