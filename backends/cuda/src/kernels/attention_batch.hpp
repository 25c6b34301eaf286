// What the host passes to attention_batch.cu.
#pragma once
#include "params.hpp"

namespace quern::cuda {

constexpr int batch_most_rows = 64;                            // of a step
constexpr int batch_most_warps = 8;                            // of a block
constexpr int batch_stages = 3;                                // tiles under way for each warp
constexpr int batch_keys(int d) { return d == 128 ? 8 : 16; }  // of a tile
/// Shared memory of a block of `warps` for `group` heads of d elements: barriers, queries, results, their softmax, and the stages.
constexpr long long batch_bytes(long long group, long long d, long long warps) {
  return 8 * batch_most_warps * batch_stages + 4 * group * d * (1 + warps) + 4 * 2 * batch_most_warps * group +
         warps * batch_stages * 2 * batch_keys(static_cast<int>(d)) * d * 2;
}

struct AttentionBatchParams {
  Address q, keys, values, bias_q, bias_k, bias_v;  // f32, heads side by side in rows of `row`; biases or 0
  long long row;
  Pages k, v;  // of f16 or bf16; keys and values of these rows are written there
  int rows, heads, window;
  float scale, softcap;
  Address rope;
  long long rope_positions, rope_pairs;
  int rope_mode;
  HeadNorms norms;
  Address y;
  int y_dtype, y_columns;  // as of AttentionParams, y_places too
  Address y_places;
  Address faults;
  int early;  // 1: positions, slots, tables and what older steps wrote to the cache are there before the kernel before has ended
};

}  // namespace quern::cuda
