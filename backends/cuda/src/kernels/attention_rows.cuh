// What the kernels of attention of many rows share (attention_rows.cu, attention_groups.cu): where rows stand, which keys they see, the
// softmax of a tile, and the result. Sums lie in threads as the matrix units leave them: rows g and g + 8 of a warp's 16, columns 2 t and 2 t + 1
// of each eight.
//
// A block has 128 lines. Of a step with fewer rows they are those of several heads of one kv head, head after head: keys are read once for all.
// Where the blocks are fewer than the multiprocessors, each has one of `splits` shares of the keys, and attention_join.cu joins the parts.
#pragma once
#include "attention_rows.hpp"
#include "kv.cuh"
#include "matrix.cuh"

#if __CUDA_ARCH__ >= 800
enum { ROWS = rows_lines, KEYS = rows_keys };

struct Info {
  int position[ROWS], sequence[ROWS];  // of lines
};

/// What a block has: rows from first_row on, and heads from `head` on. Line l is row l % p.tile_rows of head l / p.tile_rows.
struct Block {
  int first_row, rows, head, heads, kv_head, split;
};
DEV Block block_of(const AttentionRowsParams& p) {
  const int per_kv = p.heads / p.k.kv_heads, groups = (per_kv + p.tile_heads - 1) / p.tile_heads, first = blockIdx.x % groups * p.tile_heads;
  Block b;
  b.kv_head = blockIdx.x / groups;
  b.head = b.kv_head * per_kv + first;
  b.heads = min(p.tile_heads, per_kv - first);
  b.first_row = (gridDim.y - 1 - blockIdx.y) * p.tile_rows;
  b.rows = min(p.tile_rows, p.rows - b.first_row);
  b.split = blockIdx.z;
  return b;
}
/// Line l's row of the block, and its head, of which there are none behind `heads`.
struct Line {
  int row, head;
  bool there;
};
DEV Line line_of(const AttentionRowsParams& p, const Block& b, int l) {
  const int head = (int)((u32)l / (u32)p.tile_rows), row = l - head * p.tile_rows;
  return {row, head, head < b.heads && row < b.rows};
}

/// Positions and sequences of a block's lines; -1: it sees nothing. The first `rows` lines are the rows.
DEV void read_info(const AttentionRowsParams& p, const Block& b, Info& info) {
  for (int l = threadIdx.x; l < ROWS; l += blockDim.x) {
    const Line line = line_of(p, b, l);
    int position = line.there ? at<const int>(p.k.position)[b.first_row + line.row] : -1;
    const int sequence = line.there ? at<const int>(p.k.row_slot)[b.first_row + line.row] : -1;
    if (position != -1 && (position < 0 || sequence < 0 || sequence >= p.k.sequences)) {
      raise_fault(p.faults);
      position = -1;
    }
    info.position[l] = position;
    info.sequence[l] = position < 0 ? -1 : sequence;
  }
}

/// Chunk j (16 bytes) of row r of a tile whose rows lie one behind the other: eight rows of a chunk, or eight chunks of a row, share no bank.
template <int D> DEV u32 place(u32 base, int r, int j) { return base + r * rows_pitch(D) + (j ^ (r & 7)) * 16; }
/// Queries of the first eight warps' 16 lines as A operands, through shared memory at `base`, which is free again behind it; with q 0 they stay
/// there. All threads.
template <int D> DEV void load_queries(const AttentionRowsParams& p, const Block& b, u32 base, u32 (*q)[4]) {
  enum { CHUNKS = D / 8 };
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  for (int e = threadIdx.x; e < ROWS * CHUNKS; e += blockDim.x) {
    const int l = e / CHUNKS, j = e % CHUNKS;
    const Line line = line_of(p, b, l);
    copy_async(place<D>(base, l, j), at<const u16>(p.q16) + (line.there ? ((i64)(b.first_row + line.row) * p.heads + b.head + line.head) * D + j * 8 : 0),
               line.there ? 16 : 0);
  }
  commit_copies();
  wait_copies<0>();
  __syncthreads();
  if (q && warp < ROWS / 16)
#pragma unroll
    for (int i = 0; i < D / 16; ++i) load_matrices(q[i], place<D>(base, warp * 16 + lane % 16, i * 2 + lane / 16));
  __syncthreads();
}

/// Neighbouring rows of one sequence: keys from `begin`, a multiple of KEYS, to `end`, in `tiles`; those before `least` none of them sees.
struct Run {
  int of, first_row, end_row, begin, least, end, tiles;
};
/// The least and the last position of a run's lines `from` to `end`; last -1: there are none. All lanes of a warp.
DEV void positions_of(const AttentionRowsParams& p, const Info& info, const Run& run, int from, int end, int& least, int& last) {
  last = -1, least = 0x7fffffff;
  for (int l = from + (int)(threadIdx.x & 31); l < end; l += 32) {
    const int row = (int)((u32)l % (u32)p.tile_rows);
    if (info.position[l] < 0 || row < run.first_row || row >= run.end_row) continue;
    last = max(last, info.position[l]);
    least = min(least, info.position[l]);
  }
  last = __reduce_max_sync(~0u, last);
  least = __reduce_min_sync(~0u, least);
}
/// The run of row `row`, the block's number `number`: of its keys the share of this block. Which share that is differs from run to run, so that
/// short ones are not all the first block's.
DEV Run run_from(const AttentionRowsParams& p, const Info& info, const Block& b, int row, int number) {
  const int rows = b.rows;
  Run run{info.sequence[row], row, rows, 0, 0, 0, 0};
  for (int base = row; base < rows; base += 32) {
    const int r = base + (int)(threadIdx.x & 31);
    // With a window, rows that are no neighbours would have keys between them that neither sees.
    const u32 other = __ballot_sync(~0u, r < rows && (info.sequence[r] != run.of || (p.window > 0 && r > row && info.position[r] != info.position[r - 1] + 1)));
    if (other == 0) continue;
    run.end_row = base + __ffs(other) - 1;
    break;
  }
  int least, last;
  positions_of(p, info, run, row, run.end_row, least, last);
  run.end = min(last + 1, p.k.pages_per_sequence * p.k.page);
  run.least = p.window > 0 ? max(0, least - p.window + 1) : 0;
  run.begin = run.least / KEYS * KEYS;
  run.tiles = (run.end - run.begin + KEYS - 1) / KEYS;
  if (p.splits > 1) {
    const int each = max((int)rows_least_tiles, (run.tiles + p.splits - 1) / p.splits), first = (b.split + number) % p.splits * each;
    run.begin += first * KEYS;
    run.tiles = min(each, run.tiles - first);
    run.end = min(run.end, run.begin + run.tiles * KEYS);
  }
  return run;
}
/// Whether all lines `from` to `to` whose results count are of the run and have no window.
DEV bool covers(const AttentionRowsParams& p, const Block& b, const Run& run, int from, int to) {
  if (p.window > 0) return false;
  return (run.first_row == 0 && run.end_row == b.rows) || (p.tile_heads == 1 && run.first_row <= from && run.end_row >= to);
}

/// The page of a tile, where one has all its keys; asked for a tile ahead, since a copy's address hangs on it.
DEV int page_of_tile(const AttentionRowsParams& p, const Run& run, int tile) {
  if (tile >= run.tiles || p.k.page % KEYS != 0) return -1;
  return at<const int>(p.k.block_table)[(i64)run.of * p.k.pages_per_sequence + (run.begin + tile * KEYS) / p.k.page];
}
/// Asks for a tile's keys and values, by THREADS threads of which this is `thread`: `to(r, j)` is how far from the tile's start row r's chunk j of 16
/// bytes goes. `page`: page_of_tile.
template <int D, int THREADS, class To> DEV void fetch_tile(const AttentionRowsParams& p, const Run& run, int kv_head, int thread, int tile, int page, u32 k_at, u32 v_at, const To& to) {
  enum { ALL = KEYS * D / 8, CHUNKS = (ALL + THREADS - 1) / THREADS, ODD = ALL % THREADS != 0 };  // of a thread
  const int first_key = run.begin + tile * KEYS;
  const auto chunk = [&](int i) { return make_int2((thread + i * THREADS) / (D / 8), (thread + i * THREADS) % (D / 8)); };
  if (p.k.page % KEYS == 0) {
    const bool present = page >= 0 && page < p.k.pages;
    const i64 from = present ? (((i64)page * p.k.kv_heads + kv_head) * p.k.page + first_key % p.k.page) * D : 0;
#pragma unroll (D > 208 ? 2 : CHUNKS)
    for (int i = 0; i < CHUNKS; ++i) {
      const int2 c = chunk(i);
      if (ODD && c.x >= KEYS) break;
      const bool there = present && first_key + c.x < run.end && first_key + c.x >= run.least;
      const i64 at_chunk = there ? from + c.x * D + c.y * 8 : 0;
      copy_async(k_at + to(c.x, c.y), at<const u16>(p.k.cache) + at_chunk, there ? 16 : 0);
      copy_async(v_at + to(c.x, c.y), at<const u16>(p.v.cache) + at_chunk, there ? 16 : 0);
    }
    return;
  }
  const int* table = at<const int>(p.k.block_table) + (i64)run.of * p.k.pages_per_sequence;
#pragma unroll 1
  for (int i = 0; i < CHUNKS; ++i) {
    const int2 c = chunk(i);
    if (ODD && c.x >= KEYS) break;
    const int key = first_key + c.x, its = key < run.end && key >= run.least ? table[key / p.k.page] : -1;
    const bool there = its >= 0 && its < p.k.pages;
    const i64 from = there ? (((i64)its * p.k.kv_heads + kv_head) * p.k.page + key % p.k.page) * D + c.y * 8 : 0;
    copy_async(k_at + to(c.x, c.y), at<const u16>(p.k.cache) + from, there ? 16 : 0);
    copy_async(v_at + to(c.x, c.y), at<const u16>(p.v.cache) + from, there ? 16 : 0);
  }
}

/// A soft cap on a dot product: its logit is cut, and goes back to the units of dot products.
__device__ __noinline__ float capped(float dot, float scale, float softcap) { return softcap * tanhf(dot * scale / softcap) / scale; }
DEV void cap_all(const AttentionRowsParams& p, float (*s)[4]) {
  if (p.softcap > 0.0f) {
#pragma unroll
    for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) s[j][e] = capped(s[j][e], p.scale, p.softcap);
  }
}
/// Keys from `key0` on that a thread's two lines, `own` at `position`, do not see become -inf: of lines outside the run all.
DEV void hide_keys(const AttentionRowsParams& p, const Run& run, int key0, const Line* own, const int* position, float (*s)[4]) {
  int lowest[2], highest[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    highest[r] = own[r].row >= run.first_row && own[r].row < run.end_row ? position[r] : -1;
    lowest[r] = p.window > 0 ? position[r] - p.window + 1 : 0;
  }
  const int t = threadIdx.x & 3;
#pragma unroll
  for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int key = key0 + j * 8 + 2 * t + (e & 1);
      if (key > highest[e / 2] || key < lowest[e / 2]) s[j][e] = -INFINITY_F;
    }
}
/// Softmax in powers of two, `unit` the scale times log2 e: s becomes weights, and what there was counts `factor` times as much. The scale is
/// positive, so that the largest dot product has the largest logit.
DEV void soften(float unit, float (*s)[4], float* most, float* sum, float* factor) {
  float top[2] = {most[0], most[1]}, minus[2];
#pragma unroll
  for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
    for (int e = 0; e < 4; ++e) top[e / 2] = fmaxf(top[e / 2], s[j][e]);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    top[r] = fmaxf(top[r], __shfl_xor_sync(~0u, top[r], 1));
    top[r] = fmaxf(top[r], __shfl_xor_sync(~0u, top[r], 2));
    const float from = top[r] == -INFINITY_F ? 0.0f : top[r];
    factor[r] = power_of_two((most[r] - from) * unit);
    minus[r] = -from * unit;
    most[r] = top[r];
    sum[r] *= factor[r];
  }
#pragma unroll
  for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      s[j][i] = power_of_two(fmaf(s[j][i], unit, minus[i / 2]));
      sum[i / 2] += s[j][i];
    }
}
template <int D> DEV void scale_out(const float* factor, float (*out)[4]) {
  if (!__any_sync(~0u, factor[0] != 1.0f || factor[1] != 1.0f)) return;
#pragma unroll
  for (int j = 0; j < D / 8; ++j) {
    out[j][0] *= factor[0];
    out[j][1] *= factor[0];
    out[j][2] *= factor[1];
    out[j][3] *= factor[1];
  }
}
/// Weights as the A operand of products with values: [16 keys][register].
template <bool HALF> DEV void pack_weights(const float (*s)[4], u32 (*weights)[4]) {
#pragma unroll
  for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
    for (int r = 0; r < 2; ++r) weights[j / 2][j % 2 * 2 + r] = HALF ? pack_half(s[j][2 * r], s[j][2 * r + 1]) : pack_bf16(s[j][2 * r], s[j][2 * r + 1]);
}
/// Stores a thread's two lines: the results, or where there are several shares of the keys, or the result is an operand, parts for attention_join.cu.
template <int D> DEV void store_lines(const AttentionRowsParams& p, const Block& b, const Line* own, const float* most, float* sum, const float (*out)[4]) {
  const int t = threadIdx.x & 3;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    sum[r] += __shfl_xor_sync(~0u, sum[r], 1);
    sum[r] += __shfl_xor_sync(~0u, sum[r], 2);
    if (!own[r].there) continue;
    const i64 vector = (i64)(b.first_row + own[r].row) * p.heads + b.head + own[r].head;
    if (p.partial) {
      const i64 part = vector * p.splits + b.split;
      if (t == 0) at<float2>(p.softmax)[part] = make_float2(most[r], sum[r]);
      if (most[r] == -INFINITY_F) continue;  // no key of this share is seen
#pragma unroll
      for (int j = 0; j < D / 8; ++j) *reinterpret_cast<float2*>(at<float>(p.partial) + part * D + j * 8 + 2 * t) = make_float2(out[j][2 * r], out[j][2 * r + 1]);
      continue;
    }
    const float inverse = sum[r] > 0.0f ? 1.0f / sum[r] : sum[r] == 0.0f ? 0.0f : sum[r];  // a NaN stays one
    const i64 to = vector * D;
#pragma unroll
    for (int j = 0; j < D / 8; ++j) {
      const float x = out[j][2 * r] * inverse, y = out[j][2 * r + 1] * inverse;
      if (p.y16) *reinterpret_cast<u32*>(at<u16>(p.y16) + to + j * 8 + 2 * t) = pack16(x, y, p.half);
      else *reinterpret_cast<float2*>(at<float>(p.y) + to + j * 8 + 2 * t) = make_float2(x, y);
    }
  }
}
#endif
