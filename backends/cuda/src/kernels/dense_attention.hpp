// Parameters of attention over dense keys and values and within packed examples, and of their gradients.
#pragma once
#include "strided.hpp"

namespace quern::cuda {

constexpr int dense_pitch(int d) { return d | 1; }  // the distance of rows of d floats in shared memory: neighbours use different banks

struct DenseAttentionParams {
  Operand q, k, v, y;      // [b, t or u, heads, d]: strides of the first three
  Operand mask;            // strides over b, heads, t, u
  Operand lse;             // [b, t, heads] f32; may be absent in the forward pass
  Operand dy, dq, dk, dv;  // of the gradient
  Address sinks;           // f32 [heads] or 0
  Address dots;            // f32 [b, heads, t]: sums of dy y
  Address start;           // i32 [examples + 1] or 0: rows of packed examples, of which the first two strides are those of a row
  Address valid;           // i32 [1]: whether `start` ascends within the rows (attention_starts)
  int examples;
  int queries, keys, heads, kv_heads, d, dv_size;
  int causal, window;
  long long offset;
  float scale, softcap, max_bias;
};

/// Kernels on the matrix units (attention_mma.cuh) have tiles of so many rows, for heads of up to `size` elements. A block has one tile of its
/// own rows forward, and two in the gradient. Of the other side it has two in each of two stages.
constexpr int mma_attention_tile = 64;
constexpr int mma_attention_shared(bool backward, int size) {
  const int tiles = backward ? 6 : 5;
  return tiles * mma_attention_tile * size * 2 + (mma_attention_tile * (mma_attention_tile + 1) + 4 * mma_attention_tile) * 4;
}

struct AttentionStartsParams {
  Address start, valid, faults;
  int examples, rows;
};

/// Tiles of `tile` rows are at most so many: example e has those from start[e] / tile + e on, and rows behind the examples are one more.
constexpr long long ragged_tiles(long long rows, long long examples, long long tile) { return rows / tile + examples + 1; }

}  // namespace quern::cuda
