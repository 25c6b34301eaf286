// Low-rank adapters. See ops.hpp for what holds for all ops.
#pragma once

#include "quern/graph/graph.hpp"

namespace quern::graph::ops {

struct LoraInputs {
  ValueId x, pool, table, slot;
};
/// y[t] = base[t] + alpha * scale * B (A x[t]) with the adapter in slot[t]; slot -1 copies base bit for bit.
///
///   x      [t, k]      f32, f16 or bf16
///   pool   [elements]  f32, f16 or bf16: all A [rank, k] and B [n, rank]
///   table  [slots, 4]  i32: offset of A, offset of B (elements of pool), rank, bits of the f32 scale
///   slot   [t]         i32
///   base   [t, n]      the dtype of y; absent: 0
///   y      [t, n]      f32, f16 or bf16 by options.output_dtype; else that of x
ValueId lora_matmul(Graph& graph, const LoraInputs& in, ValueId base, std::int64_t n, double alpha = 1, NodeOptions options = {});

struct LoraGradients {
  ValueId dx, dpool;
};
/// dx like x, dpool like pool (added to a state with accumulate); dy [t, n] f32, f16 or bf16.
LoraGradients lora_matmul_backward(Graph& graph, const LoraInputs& in, ValueId dy, double alpha = 1, bool accumulate = false,
                                   NodeOptions options = {});

/// y = w + alpha * b a; w [n, k], a [r, k], b [n, r], each f32, f16 or bf16; y like w.
ValueId lora_merge(Graph& graph, ValueId w, ValueId a, ValueId b, double alpha = 1, NodeOptions options = {});

/// y = x / (1 - p) where random_uniform(seed, step, salt) >= p, else 0; 0 <= p < 1; x f32, f16 or bf16, y like x; seed u32 [2],
/// step i32 [1]. The gradient is the same op on dy.
ValueId dropout(Graph& graph, ValueId x, ValueId seed, ValueId step, double p, std::int64_t salt = 0, NodeOptions options = {});

}  // namespace quern::graph::ops
