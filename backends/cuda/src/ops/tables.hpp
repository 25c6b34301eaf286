// The tables of all op files: one line a file. Order does not matter.
#pragma once

#include "../op.hpp"

namespace quern::cuda {

extern const std::span<const Op> activation_ops, arrange_ops, attention_dense_ops, attention_ops, cast_ops, copy_ops, cumsum_ops,
    decoding_ops, elementwise_ops, experts_ops, kv_ops, lora_ops, loss_ops, matmul_ops, moe_ops, norm_backward_ops, norm_ops, optimiser_ops,
    random_ops, ranking_ops, rope_ops, rows_ops, sampling_ops, softmax_ops, sum_ops;

inline std::span<const std::span<const Op>> op_tables() noexcept {
  static const std::span<const Op> tables[] = {
      activation_ops,    arrange_ops,  attention_dense_ops,
      attention_ops,     cast_ops,     copy_ops,
      cumsum_ops,        decoding_ops, elementwise_ops,
      experts_ops,       kv_ops,       lora_ops,
      loss_ops,          matmul_ops,   moe_ops,
      norm_backward_ops, norm_ops,     optimiser_ops,
      random_ops,        ranking_ops,  rope_ops,
      rows_ops,          sampling_ops, softmax_ops,
      sum_ops,
  };
  return tables;
}

}  // namespace quern::cuda
