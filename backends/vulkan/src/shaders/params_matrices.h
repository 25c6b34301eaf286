// As params.h, what kernels for cooperative matrices read: their SPIR-V is committed, and stays while this stays.
#ifdef __cplusplus
#pragma once
#include <cstdint>
namespace quern::vulkan {
using uint = std::uint32_t;
using std::int64_t;
using std::uint64_t;
#endif

const uint least_rows_together = 8;  // of a tile and a sequence, that attention_matrix.comp is worth (rows_together.glsl)

struct GemmParams {  // a: rows of f16, each times a power of two that row_scale undoes; halves: b as rows of f16 (weights_f16.comp), or 0; the rest as of GemvParams
  uint64_t a, row_scale, places, b, halves, bias, c, y;  // places: of gemm_few.comp, whose a are right matrices (rows_f16.comp)
  uint m, n, k;
  int bias_dtype;
};
struct MatrixLayoutParams {
  uint64_t table;
  uint most, unused;  // components of a lane that the table has room for
};
struct AttentionParams {
  uint64_t q, k_cache, v_cache, block_table, row_slot, position, kv_len, mask, sinks, y, faults;
  int64_t q_row, q_head, y_row, y_head, k_page, k_head, k_position, v_page, v_head, v_position, mask_row, mask_columns, window;
  uint rows, heads, kv_heads, d, dv;
  int q_dtype, y_dtype, mask_dtype, sink_dtype, sink_step, pages, page, sequences, pages_a_sequence, causal;
  float scale, softcap, max_bias;
  int positions, mode, unused;  // of a rotation in the kernel: rows of its table, as of rope
  uint pairs;
  uint64_t new_k, new_v, table;
  int64_t table_stride;
};

#ifdef __cplusplus
}  // namespace quern::vulkan
#endif
