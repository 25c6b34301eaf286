// What the host passes to kernels, read by the C++ compiler and by glslc alike: std430 and C++ lay these structs out in the same way.
//
// A kernel whose parameters fit 128 bytes gets them as push constants (PUSHED in prelude.glsl), others an address (STORED): the host
// chooses by the same rule. Addresses and byte strides have 64 bits; what is counted in one dispatch has 32.
#ifdef __cplusplus
#pragma once
#endif
#include "params_chain.h"
#include "params_matrices.h"
#ifdef __cplusplus
#include <cstdint>
namespace quern::vulkan {
using uint = std::uint32_t;
using std::int64_t;
using std::uint64_t;
#endif

/// Dims in row-major order, as few as all views of a dispatch allow.
struct Shape {
  uint count;  // of elements, below 2^31
  int rank;
  uint dims[6];
};
/// One tensor over a shape.
struct View {
  uint64_t data;
  int64_t stride[6];  // bytes
  int dtype;
  int step;           // bytes between elements along the last dim, where a kernel works on rows
};

struct PredicateParams {  // a grid times whether a number is not 0
  uint64_t predicate, grid;
  uint x, y, z;
};

struct CopyParams {
  Shape shape;
  View x, y;
  uint64_t predicate;  // of one number a row, or 0
  uint items_a_row, unused;
};

struct ElementwiseParams {
  Shape shape;
  View a, b, y;
  float s, t;  // factors or limits
};
struct GluParams {
  Shape shape;
  View gate, up, y, dgate, dup;  // backward: y is dy; dup.data 0: not wanted
  float alpha, limit;
  int limited, unused;
};
struct FillParams {
  Shape shape;
  View y;
  uint bits, unused;
};
struct RepeatParams {
  View small, large;  // strides over all dims of `large`
  uint small_dims[6], large_dims[6];
  int rank;
  uint count, repeats, unused;  // elements of `small`, and how often each stands in `large`
};

struct RowParams {
  Shape rows;
  View x, b, y;
  uint64_t partial, predicate;
  uint n, rows_a_predicate;
  int mode;
  float count;
};
struct NormParams {
  Shape rows;
  View x, b, sum, y;
  uint64_t weight, bias;  // packed f32, or 0
  uint n;
  float epsilon, offset;
  int unused;
};
struct SoftmaxParams {
  Shape rows;
  View x, mask, y;
  uint64_t sinks;
  int64_t query_offset;
  uint n, queries, heads;
  float scale, softcap, max_bias;
  int causal, window, sink_dtype, sink_step;
};

struct BlockRowsParams {
  Shape rows;
  View x, y;                     // step: of the blocks of the one, of the elements of the other
  uint64_t blocks, first_block;  // of a matrix in planes: all of them; the first one of the first row
  uint units, row_blocks;        // of a row: blocks to make, or groups of 16 elements; all blocks, in planes
};
struct RowsParams {  // rows of a table by index; x is what goes there, or y
  uint64_t table, index, x, predicate, faults, lists;
  int64_t table_stride, x_stride;  // bytes of a row
  int table_step, x_step, index_step;
  int x_dtype, index_dtype;
  uint count, rows, h;  // indices; rows and row length of the table
};

struct RopeTableParams {
  uint64_t count, factors, table;
  int64_t table_stride, first;
  double base, factor, beta_fast, beta_slow, mscale, low, high, context;
  uint positions, pairs;
  int scaling, unused;
};
struct RopeParams {
  View x, y;
  uint64_t position, table, faults;
  int64_t position_stride, section_stride, table_stride;
  uint tokens, heads, d, pairs, sections[4];
  int positions, mode, inverse, sectioned;
};

struct MatmulParams {
  uint64_t a, b, bias, c, y, ids, faults;       // bias, c and ids: 0 where absent
  int64_t a_row, b_row, c_row, y_row, b_expert;  // bytes
  int64_t a_batch[4], b_batch[4], c_batch[4], y_batch[4];
  int64_t a_step, b_step;  // of matmul_tiles
  uint64_t partial;        // sums of parts of k: [batch][parts][m][n]
  uint64_t b_blocks;       // of a packed b
  uint batch_dims[4], group[4];                  // leading dims of a, and how many of each read one of b
  uint m, n, k, batch, parts, part_k;
  int a_dtype, b_dtype, bias_dtype, c_dtype, y_dtype;
  int bias_step, c_step, y_step;
  int used, experts;                             // with ids: of a token, of all; a_step and c_row lead from one expert's row to the next
  float alpha, beta;
};
struct RepackParams {  // fields of blocks to planes: byte offset in a block, and how many bytes
  uint64_t from, to[4];
  uint offset[4], bytes[4];
  uint blocks, block_bytes;
};
struct QuantiseParams {  // rows of f32 to int8 activations
  uint64_t x, other, weight, y;
  int64_t x_row, other_row;
  uint rows, k;
  float epsilon, offset;
};
struct GemvParams {  // rows of y and c are packed f32
  uint64_t a, b, bias, c, y;  // a: int8 activations
  uint m, n, k;
  int bias_dtype;
};
struct RowsF16Params {  // rows of f32 to rows of f16
  uint64_t x, other, weight, y, row_scale, places;
  int64_t x_row, other_row;
  uint rows, k;
  float epsilon, offset;
};
struct OperandParams {  // rows of floats to rows of f16, of `padded` elements; y: parts of part_k, part_bytes apart, each with the rows' scales behind it
  uint64_t x, y, largest;  // largest: of each row in each share of k
  int64_t x_row, x_step, part_bytes;
  uint rows, k, padded, part_k, share, shares;
};
struct OneRowParams {  // up to three products of x; other: the norm's weight, or the other half of a SwiGLU; c and y: packed f32; begins: the
                       // workgroups where the second and the third begin, 16 bits each
  uint64_t x, other, c;
  uint64_t b[3], bias[3], y[3];
  uint n[3];
  uint begins;
  int bias_dtype;
  float epsilon, offset;
  uint unused;
};
struct AttentionRowParams {  // words: floats behind x; parts: sums of parts of the keys; counters: of each group of heads, 0; the rest as in AttentionParams
  uint64_t x, k_cache, v_cache, block_table, row_slot, position, table, y, faults, parts, counters;
  uint q_word, k_word, v_word, k_page, k_head, v_page, v_head;
  int pages, pages_a_sequence, positions;
};
struct AttentionJoinParams {  // parts: [count][rows][heads][d] of f32, behind them [count][rows][heads][2]
  uint64_t parts, y;
  int64_t y_row, y_head;
  uint rows, heads, d, count;
};
struct KvParams {
  uint64_t x, cache, block_table, row_slot, position, predicate, faults;
  int64_t x_row, x_head, page_stride, head_stride, position_stride;
  int x_dtype, x_step, pages, page, sequences, pages_a_sequence, row_bytes;
  uint rows, kv_heads, d;
};
struct RopeKvParams {  // q, k, v and q_out: packed rows of f32
  uint64_t q, q_out, k, v, table, position, row_slot, block_table, k_cache, v_cache, faults;
  int64_t table_stride, k_page, k_head, k_position, v_page, v_head, v_position;
  uint rows, heads, kv_heads, d, dv, pairs;
  int positions, mode, pages, page, sequences, pages_a_sequence, k_dtype, v_dtype;
};
struct RouterParams {
  uint64_t logits, bias, id, weight, predicate;
  int64_t logits_stride, id_stride, weight_stride;
  uint rows, experts, used;
  int renormalise, logits_step, id_step, weight_step;
  float scale;
};
struct CombineParams {
  uint64_t x, weight, y, predicate;
  int64_t x_row, x_used, y_row;
  uint rows, used, n;
  int x_dtype, y_dtype, x_step, y_step, unused;
};

struct RankParams {
  Shape rows;
  View x, y, index;
  uint64_t params, seed, step, pairs, found, predicate;  // pairs: [rows][2][n] of 8 bytes; found: [rows][parts] of 16, of a row in parts
  uint n, kept;
  int ascending;
  uint parts;
};
struct LogitParams {
  uint64_t x, y, tokens, lengths, params, predicate, faults;
  int64_t x_row, y_row;
  uint rows, n, entries, unused;
};
struct SamplePartsParams {
  uint64_t x, y, history, lengths, params, bias_tokens, biases, found, faults;
  int64_t x_row, y_row;
  uint rows, n, history_entries, bias_entries, parts, unused;
};
struct RandomParams {
  Shape shape;
  View x, y;
  uint64_t seed, step, first;
  uint salt;
  float probability;
};
struct DecodingParams {
  uint64_t a, b, live, y, z;
  int64_t a_row, b_row, y_row;  // bytes
  uint rows, k;
  int a_step, b_step, y_step, unused;
};

struct DenseParams {  // strides: batch, position, head, and step; of the mask batch, head, query, key. A batch of packed examples is a row
  View q, k, v, y, lse, dy, mask, dq, dk, dvalues, dots;  // dots: dy y of each query
  uint64_t sinks, start, valid;                           // where examples begin, and the end of the last; whether they may lie there
  int64_t query_offset, window;
  uint batch, queries, keys, heads, kv_heads, d, dv, examples;
  int causal, sink_dtype, sink_step;
  float scale, softcap, max_bias;
};
struct AttentionStartsParams {
  uint64_t start, valid, faults;
  uint examples, rows;
};
struct NormBackwardParams {
  Shape rows;
  View x, dy, dx;
  uint64_t weight, dweight, dbias, predicate, stats, sums;  // stats: mean and factor of each row; sums: two rows of n
  uint n, rows_a_predicate;
  float epsilon, offset;
  int accumulate, unused;
};
struct LossParams {
  uint64_t x, label, loss, lse, y, predicate, faults;
  int64_t x_row, y_row;
  uint rows, n;
  int x_dtype, y_dtype, x_step, y_step, label_step, loss_step, lse_step, ignored;
  float smoothing, z_loss;
};
struct OptimiserParams {
  Shape shape;
  View gradient, w, m, v, master;
  uint64_t lr, step, scale, predicate, faults;
  float beta1, rest1, beta2, rest2, log_beta1, log_beta2, epsilon, weight_decay, momentum;
  uint items_a_row;
};
struct GradNormParams {
  Shape shape;
  View x;
  uint64_t partial, norm, finite;  // of the scale: finite is the loss scale or 0, partial the result
  uint count;
  float max_norm;
};
struct LoraParams {
  View x, y, base, out_;  // y: dy
  uint64_t pool, table, slot, h, g, predicate, faults;
  uint rows, k, n, pool_size, most_rank;
  int slots, slot_step, pool_dtype, accumulate;
  float alpha;
};
struct ExpertsBackwardParams {
  View dy, a, b, da, db;
  uint64_t id, predicate, faults;
  int64_t id_row;
  uint tokens, used, n, k, first_expert, slice;
  int experts, id_step, shared_rows, accumulate;
  float scale;
  int unused;
};

#ifdef __cplusplus
}  // namespace quern::vulkan
#endif
