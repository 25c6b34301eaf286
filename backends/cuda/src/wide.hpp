// The schedule of steps of many rows: products in 16 bits on the matrix units, with what lies between them fused.
//
//   - weights are read as bf16. Copies are made when an instance is prepared (shadows.hpp), else in scratch for each product. Weights of f16 are
//     read as they are, by activations of f16.
//   - queries, keys and values, and gate and up, are one product where their weights lie side by side, or columns of one.
//   - norms, activations and attention write the 16-bit operand of the next product; residual sums are the addend of products.
//   - columns of operands in another order (take) are stored so by what makes the operand; copies of weights have them put back.
//   - a norm behind a product, the sum with it and the norm before the next product are one kernel.
//   - adapters are two kernels for all products of an operand: what A makes of it, and what B adds to the results in place (kernels/lora_rows.cu).
//   - rotations and the cache's writes are one kernel; attention of many rows runs on the matrix units (kernels/attention_rows.cu).
#pragma once

#include "schedule.hpp"

namespace quern::cuda {

/// For runs with more rows than the decode schedules have. Empty where the graph has no product that it serves. `given`: what `graph` was read from.
Schedule wide_schedule(const Graph& graph, const quern_graph* given, const CardFacts& card);

/// The same of up to 64 rows; of a prompt's, 32 on cards without products of warpgroups. Most bytes of the weights then have products in their own
/// format on the matrix units (ops/mixed.hpp). Few rows cost the reading of the weights, and no copies of them.
Schedule mixed_schedule(const Graph& graph, const quern_graph* given, const CardFacts& card);

}  // namespace quern::cuda
