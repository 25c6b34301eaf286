// The rows of all op files: QUERN_CUDA_OP(op), which the build lists in cuda_op_tables.def.
#pragma once

#include "../op.hpp"

namespace quern::cuda {

#define QUERN_CUDA_OP(name) extern const Op name##_op;
#include "cuda_op_tables.def"
#undef QUERN_CUDA_OP

inline std::span<const Op* const> op_rows() noexcept {
  static constexpr const Op* rows[] = {
#define QUERN_CUDA_OP(name) &name##_op,
#include "cuda_op_tables.def"
#undef QUERN_CUDA_OP
  };
  return rows;
}

}  // namespace quern::cuda
