// What the host passes to attention_batch.cu.
#pragma once
#include "params.hpp"

namespace quern::cuda {

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
  int y_dtype, y_columns;  // as of AttentionParams
  Address faults;
  int early;  // 1: positions, slots, tables and what older steps wrote to the cache are there before the kernel before has ended
};

}  // namespace quern::cuda
