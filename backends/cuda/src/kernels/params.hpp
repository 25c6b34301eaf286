// What the host passes to kernels: plain structs, read by the C++ compiler and by NVRTC alike.
//
// Addresses are device addresses (or mapped host memory) as 64-bit numbers. Nothing here needs a header.
#pragma once

namespace quern::cuda {

using Address = unsigned long long;

/// A tensor with byte strides; dims beyond `rank` are 1 with stride 0.
struct View {
  Address data;
  int dtype;
  int rank;
  long long dims[6];
  long long strides[6];
};

/// A matrix of blocks in row-major order, each block cut into up to four pieces that lie in planes: piece p of block b is at
/// plane[p] + b * stride[p]. A canonical matrix has its pieces at offsets inside one plane. Plain floats have one piece, of 16 elements.
///   0 scales (d; d and m; or the 16-byte header of Q4_K and Q5_K)   1 codes   2 high bits   3 sub-scales of Q6_K
struct Blocks {
  Address plane[4];
  int stride[4];
  int dtype;
  int aligned;  // every piece of codes starts at a multiple of 16 bytes
};

/// Activations of products of few rows: codes [t][k] and, for each 32 of them, 2 x f32: scale, and of int8 the sum of the codes.
struct Activations {
  int dtype;  // of the codes: 0 int8, or that of the weights, f16 or bf16 (2 bytes, scales are powers of two)
  Address codes;
  Address meta;
  Address sums;  // [t][sum_count] parts of the sum of squares of the row, or 0: nothing to normalise
  int sum_count;
  float epsilon;
};

struct Patch {  // one entry of the mailbox
  Address to;
  unsigned offset;  // into the mailbox's bytes
  unsigned bytes;
};
struct PatchParams {
  Address count;    // u32 in mapped host memory
  Address entries;  // Patch[]
  Address bytes;
};
struct PublishParams {  // device memory to mapped host memory
  Address from[4];
  Address to[4];
  unsigned bytes[4];
  int count;
};

struct QuantiseParams {
  Address x;       // f32 [t][k]
  Address weight;  // f32 [k] or 0
  float offset;
  int k;
  Activations out;  // sums: one a row of 32 codes, [t][k / 32], if not 0
};

struct RopeTableParams {
  Address count, factors, table;
  long long positions, pairs;
  double base, factor, beta_fast, beta_slow, mscale, low, high;
  long long context, first;
  int scaling;
};
struct RopeParams {
  View x, position, y;
  Address table;
  long long positions, pairs, heads, d, rows;
  int mode, inverse, sections[4], sectioned;
  Address faults;
};

struct Pages {  // the paged keys or values
  Address cache;
  int dtype;
  int pages, kv_heads, page, d;
  Address block_table, row_slot, position;
  int sequences, pages_per_sequence;
};

/// Norms of queries and keys before they rotate, of each head by one weight for all: f32 [d]; 0: none.
struct HeadNorms {
  Address q, k;
  float offset_q, offset_k, epsilon_q, epsilon_k;
  int rows;  // 1: a norm is of all heads together, and its weight f32 [heads][d]
};

struct AttentionParams {
  Address q, y;
  int q_dtype, y_dtype;
  Pages k, v;
  Address kv_len, mask, sinks;
  int mask_dtype;
  long long mask_stride;  // elements of a row
  int heads, group;       // query heads of one kv head that a block takes
  int causal, window;
  float scale, softcap, max_bias;
  int splits;
  Address partial;   // f32 [rows][heads][splits][dv + 2]
  Address counters;  // u32 [rows][heads], zero before and after
  Activations out;   // codes 0: none
  // Of the fused decode of one row: raw keys and values of this step, rotated and written here. new_k 0: they are in the cache.
  Address new_k, new_v, rope;
  long long rope_positions, rope_pairs;
  int rope_mode;
  HeadNorms norms;  // of the queries and of new_k
  int early;        // positions, pages, rope and older keys may be read before the kernel before has ended: no kernel of the run makes them
  int least_runs;   // not 0: rows among whose 128 are no more runs of one sequence than this are left to attention_rows.cu
  Address faults;
  int y_columns;     // y is an operand of so many columns (operand.cuh), of f16 or bf16; 0: rows
  Address y_places;  // of such an operand: where its elements go (operand.cuh), or 0
};

/// What a product applies to its results, or to those of gate under glu.
enum Activation { act_none, act_silu, act_gelu_erf, act_gelu_tanh, act_gelu_quick, act_relu, act_sigmoid };

/// What raw activations of a product of one row become before anything else, in each of its blocks.
enum FrontKind { front_none, front_sum, front_layer_norm };
struct Front {
  int kind;               // front_sum: added + rms norm of raw; front_layer_norm: that of raw
  Address weight, bias;   // f32 [k] of this norm; bias or 0
  float offset, epsilon;  // offset: added to weight
  Address added, sum;     // front_sum: f32 [k]; the first block stores the sum
};

struct GemvPart {
  Blocks w;
  Address y;     // f32 [t][rows]; 0: not stored
  Address bias;  // f32 [rows] or 0
  int rows;
};
/// y = W x for up to 8 rows of int8 activations. Rows of parts stand one after another.
struct GemvParams {
  GemvPart part[3];
  int parts, k, t, rounds;  // block: warps x rounds x (glu ? 1 : 2) outputs
  Activations x;
  Address residual;    // f32 [t][rows of part 0] or 0
  int glu;             // 1: part 0 is gate, part 1 up; y[0] = activation(gate) * up
  Activations out;     // int8 copy of y[0], codes 0: none
  Address out_weight;  // f32 factor before quantising, or 0
  float out_offset;
  int activation;     // Activation; without glu: of part 0 and its bias, where there is no residual
  Address residual2;  // as residual
};
/// The adapters of a part of a product, as lora_matmul takes them: see adapters.cuh.
struct AdapterPart {
  Address pool, table, slot;  // table i32 [slots][4]: offsets of A and B, rank, bits of the scale; 0: the part has none
  int pool_dtype;
  long long pool_count, slots;
  long long first, rows;  // of B: the row of the part's first output, and all
  float alpha;
};
struct Adapters {
  AdapterPart part[3];
  Address x, weight;  // f32 [k]: what A multiplies, times weight + offset; weight or 0
  float offset;
  Address words, count;  // u64 [parts][most_rank] and u32: zeros before and after
  int most_rank;
  int early;  // 1: no kernel of the run that may not have ended makes or brings slots, tables and pools
  Address faults;
};
/// The same for tiles.cu: how much of W a block of threads has under way.
struct TilesParams {
  GemvParams g;    // rounds is not read
  struct Pieces {  // of a part's blocks: `elements` each, in `count` planes, and the distance of rows in a stage
    int elements, count, bytes[4], pitch[4], base[4];  // base: where a piece's rows start in a stage
    int half[4];                                       // of stream.cu under glu: and how far behind them those of up
  } pieces[3];
  int subtiles;  // 16 rows each, that a block works on one after another, or that give 32 outputs to quantise; of stream_1 all there are
  int groups;    // of stream_quantise_1: so many times
  int chunk, chunks;  // elements of k in a stage; stages of one subtile
  int share;          // elements of k that are summed by themselves, before the next; of tiles.cu whole chunks, or all
  int stages;         // in shared memory, at most 8
  int stage_bytes, stage_offset;
  // Of stream.cu alone: activations that every block quantises itself, in place of g.x, f32 [k]; 0: those of g.x.
  Address raw, raw_weight;  // raw_weight: f32 factor [k] before quantising, or 0
  float raw_offset;         // added to it
  int raw_norm;             // 1: results are those of raw divided by its root mean square, see g.x.epsilon
  int rows;     // 16, 8, 4 or 2: a stage is so many whole rows without gaps, one copy a piece (two under glu), `chunks` of them a tile
  int settles;  // 1: the next kernel starts only when all before this one are done
  Front front;  // of raw
  Adapters adapters;  // of stream_adapted_1 and its kind
};
/// The same of one row for rings.cu: weights of f16 and bf16 take f32 activations, others int8 ones.
struct RingParams {
  GemvParams g;                       // t, rounds and out are not read
  struct Pieces {                     // of a part's rows
    int first, end;                   // its pairs
    int count, blocks, here;          // planes; blocks in a row and in a slot
    int bytes[4], base[4], pitch[4];  // of each plane: bytes of a block, where the first row is in a slot, and the second behind it
  } pieces[3];
  int pairs, odd;         // of rows; of gate and up one each. odd: the last one has one row
  int chunks;             // slots that a pair takes
  int slots, slot_bytes;  // of a warp
  int meta_offset, ring_offset;
  // f32 [k], which every block quantises itself, in place of g.x; 0: g.x.
  Address raw, raw_weight;  // raw_weight: f32 factor [k], or 0
  float raw_offset;         // added to it
  int raw_norm;             // 1: results are those of raw divided by its root mean square, see g.x.epsilon
  int settles;              // 1: the next kernel starts only when all before this one are done
  Front front;              // of raw, k at most 8192
};
struct GemvExactParams {
  Blocks w;
  Address x, bias, c, y;  // x f32 f16 or bf16 [t][k]; c, y [t][rows]
  int x_dtype, c_dtype, y_dtype;
  int rows, k, t;
  float alpha, beta;
  int ways;  // warps that share a row of w: 1, 2, 4 or 8
};
struct GemmParams {
  Blocks w;               // [n][k], or turned [w_rows][n]
  Address x, bias, c, y;  // x [m][k]
  int x_dtype, c_dtype, y_dtype;
  int m, n, k;
  int w_rows;  // of a turned w; x is 0 from there on
  float alpha, beta;
  // Where few blocks would have all of k, `splits` share it: each stores its sums, and gemm_join adds them up.
  int splits;     // 1: none
  Address parts;  // f32 [splits][m][n]
};
/// A matrix of 16-bit numbers, an operand of DenseParams: rows of k, or turned: k rows, one number of each row of the operand in each.
struct DenseOperand {
  Address data;
  int row, turned;  // row: elements from one stored row to the next
};
/// y = alpha x W^T + bias + c in 16-bit operands: rows of y and c lie `row` elements apart.
struct DenseParams {
  DenseOperand x, w;  // x [m][k], w [n][k], bf16 or f16
  Address bias, c, y;
  int m, n, k, row;
  float alpha;
  int y16;  // y and c are of the operands' type, else f32, as bias is
};
struct OrderedCopy {  // the same row as another operand, whose elements go to other places; y 0: none
  Address y, places;
};
struct Norm16Params {
  Address x, weight, y;
  int h, half;  // half: y is f16, else bf16
  float epsilon, offset;
  int columns;     // y is an operand of so many (operand.cuh); 0: rows
  int settles;     // 1: the next kernel starts only when all before this one are done
  Address places;  // of such an operand: where its elements go (operand.cuh), or 0
  OrderedCopy more[2];
};
struct To16Params {
  Address x, y;
  long long count;  // a multiple of 4
  int half;
  int columns, k;  // as of Norm16Params; of rows of k
  Address places;  // as of Norm16Params
};
struct Glu16Params {
  Address x, y;
  long long rows;
  int n, half;
  float scale;
  float x_scale;            // not 0: x is f16, this many times too small
  int activation, columns;  // columns as of Norm16Params
  int single;               // 1: y16 = activation(x), rows of x are n
  Address places;           // as of Norm16Params
};
/// A row of a step in one pass: its norm, perhaps a sum with another row, and what the next products read of the result.
struct RowParams {
  Address x, weight, bias;  // f32; the norm's, bias or 0
  int layer;                // 1: a layer norm, else an rms norm
  float offset, epsilon;
  Address added;        // f32 rows that are added to the norm's result, or 0
  Address y;            // f32 rows of that, or 0
  Address next_weight;  // f32: of the rms norm of the result before y16 or codes are made of it, or 0
  float next_offset, next_epsilon;
  Address y16;        // 16-bit operand, or 0
  int half, columns;  // as of Norm16Params, places too
  Address places;
  Activations out;  // int8 operand, codes 0: none; its norm's factor is left to its reader
  int h, settles;
};
struct RopeKvParams {
  Address q, keys, values, bias_q, bias_k, bias_v;  // f32 rows, q_row, k_row and v_row elements apart; biases or 0
  long long q_row, k_row, v_row;
  Address q_out;  // [t][heads][d] in q_dtype; of f32 it may be q
  int q_dtype;
  Pages k, v;  // of f32, f16 or bf16
  int heads;
  Address rope;
  long long rope_positions, rope_pairs;
  int rope_mode;
  Address faults;
  int x16;          // q, keys and values are f16 (rope_kv_8 alone)
  HeadNorms norms;  // rope_kv_8 alone
};
struct AttentionRowsParams {
  Address q16, y16, y;  // q16 in the cache's type; y16 0: y in f32
  int half;             // y16 is f16, else bf16
  Pages k, v;
  int rows, heads, window;
  float scale, softcap;
  int most_runs;              // not 0: of 128 rows with more runs of one sequence nothing is computed (AttentionParams::least_runs)
  int tile_rows, tile_heads;  // of a block
  int splits;                 // shares of the keys
  Address partial, softmax;  // f32 [rows][heads][splits][d], and of each its largest dot product and its sum; 0: results are stored at once
  int y_columns;             // y16 is an operand of so many columns (operand.cuh), by attention_join.cu; 0: rows
  Address y_places;          // as of AttentionParams
  Address faults;
};
struct UnpackParams {  // blocks to rows of bf16, f16 or f32
  Blocks w;
  Address y;
  int y_dtype;
  long long rows, k, first, columns;  // of each row of k the columns from `first` on, a multiple of 16 of them
};
struct OrderedUnpackParams {  // blocks to rows of bf16, element j of a row at index[j]
  Blocks w;
  Address y, index;  // index: i32 [k], each place once
  long long rows;
  int k;
};
struct RepackParams {
  Address from;
  int block_bytes;
  Address to[4];
  int offset[4], bytes[4];
  long long blocks;
};

struct PenalizeParams {
  Address x, y, history, length, params;
  long long rows, n, capacity;
  Address faults;
};
struct BiasParams {
  Address x, y, token, bias;
  long long rows, n, entries;
  Address faults;
};
struct SampleParams {
  Address x, params, seed, step, token, logprob;
  Address keys;  // u64 [rows][2][n]
  long long rows, n;
};

}  // namespace quern::cuda
