// The tables of all op files: one line a file. Order does not matter.
#pragma once

#include "../op.hpp"

namespace quern::cuda {

extern const std::span<const Op> elementwise_ops, rows_ops, norm_ops, rope_ops, kv_ops, attention_ops,
    matmul_ops, reduce_ops, sampling_ops, copy_ops;

inline std::span<const std::span<const Op>> op_tables() noexcept {
  static const std::span<const Op> tables[] = {elementwise_ops, rows_ops,   norm_ops,   rope_ops,     kv_ops,
                                               attention_ops,   matmul_ops, reduce_ops, sampling_ops, copy_ops};
  return tables;
}

}  // namespace quern::cuda
