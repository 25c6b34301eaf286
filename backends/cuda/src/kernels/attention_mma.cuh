// attention_ragged and its gradients on the matrix units: operands, probabilities and slopes in 16 bits, sums in f32. Heads of up to D elements.
//
//   block   Four warps, each 16 rows of a tile of 64: queries, or keys in the kernel of dk and dv. There are no atomics.
//   stages  Two: while one is multiplied, the next tiles of the other side are copied. Operands of other types are converted on their way.
//   shared  Tiles of 64 rows of D numbers, chunk j of 16 bytes at j ^ (r % 8). Eight rows of a chunk share no bank, nor eight chunks of a row.
//   sums    As the matrix units leave them: rows g and g + 8 of a warp's 16, columns 2 t and 2 t + 1 of each eight. A probability is the left
//           operand of the next product where it lies. The gradients make probabilities again from lse.
#pragma once
#include "dense_attention.cuh"
#include "matrix.cuh"

#if __CUDA_ARCH__ >= 800
enum { TILE = mma_attention_tile, WEIGHT_PITCH = TILE + 1 };

template <int D> DEV u32 spot(u32 base, int r, int j) { return base + r * (D * 2) + (j ^ (r & 7)) * 16; }

/// The chunks of 16 bytes that a thread brings of a tile: of one column, in every eighth or sixteenth row, so that they lie at one distance.
template <int D> struct Chunks {
  enum { rows = 128 / (D / 8), count = TILE / rows };
  int row, column;  // of the first
  u32 first;
  DEV explicit Chunks(u32 base) : row(threadIdx.x / (D / 8)), column(threadIdx.x % (D / 8)) { first = spot<D>(base, row, column); }
  DEV u32 spot_of(int i) const { return first + i * (rows * D * 2); }
};

/// Rows of a tile from `first` on, those from `end` on as zeros, of numbers that must be converted. Not inlined, as any_logit() is not.
template <bool HALF, int D> __device__ __noinline__ void convert_tile16(u32 base, const char* start, i64 pitch, i64 step, int dtype, int first, int end, int d) {
  const Chunks<D> own(base);
#pragma unroll 1
  for (int i = 0; i < Chunks<D>::count; ++i) {
    const int r = first + own.row + i * Chunks<D>::rows;
    const char* row = start + r * pitch;
    const auto number = [&](int c) { return r < end && c < d ? load_float(row + c * step, dtype, 0) : 0.0f; };
    u32 w[4];
#pragma unroll
    for (int c = 0; c < 4; ++c) w[c] = pack16(number(own.column * 8 + 2 * c), number(own.column * 8 + 2 * c + 1), HALF);
    asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(own.spot_of(i)), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]) : "memory");
  }
}

/// The rows of one head, as tiles take them.
template <bool HALF, int D> struct Rows16 {
  const char* start;
  i64 pitch, step;
  int dtype, d;
  bool direct;  // they can be copied as they lie

  DEV Rows16(const Operand& o, i64 b, i64 head, int elements) : start(head_row(o, b, 0, head)), pitch(o.strides[1]), step(o.step), dtype(o.dtype), d(elements) {
    direct = dtype == (HALF ? F16 : BF16) && step == 2 && d % 8 == 0 && (((u64)start | pitch) & 15) == 0;
  }
  /// Begins to bring a tile's rows from `first` on, those from `end` on as zeros.
  DEV void fetch(u32 base, int first, int end) const {
    if (!direct) return convert_tile16<HALF, D>(base, start, pitch, step, dtype, first, end, d);
    const Chunks<D> own(base);
    const char* from = start + (first + own.row) * pitch + own.column * 16;
    const i64 apart = pitch * Chunks<D>::rows;
#pragma unroll
    for (int i = 0; i < Chunks<D>::count; ++i, from += apart) {
      const bool there = first + own.row + i * Chunks<D>::rows < end && own.column * 8 < d;
      copy_async(own.spot_of(i), there ? from : start, there ? 16 : 0);
    }
  }
};

/// Whether this thread brought a number into the tile that is not finite: 0 times it is NaN.
template <bool HALF, int D> DEV bool has_strange(u32 base) {
  enum : u32 { EXPONENT = HALF ? 0x7c00 : 0x7f80 };
  const Chunks<D> own(base);
  u32 sum = 0;
#pragma unroll
  for (int i = 0; i < Chunks<D>::count; ++i) {
    u32 w[4];
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "r"(own.spot_of(i)));
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      if (HALF) asm("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(sum) : "r"(w[c]), "r"(0));
      else asm("fma.rn.bf16x2 %0, %1, %2, %0;" : "+r"(sum) : "r"(w[c]), "r"(0));
    }
  }
  return (sum & EXPONENT) == EXPONENT || (sum >> 16 & EXPONENT) == EXPONENT;
}

/// What the logits of a tile of queries and one of keys are.
enum Sight {
  ALL,       // each query sees each key: a number times the dot products
  POSITIONS, // that, where the positions let the query see the key
  ANY        // as logit_of() has them
};
DEV Sight sight_of(const DenseAttentionParams& p, const Extent& x, int query, int key) {
  if (p.mask.data || p.softcap > 0.0f) return ANY;
  const i64 first = query + p.offset, last = first + TILE - 1;
  const bool all = query + TILE <= x.queries && key + TILE <= x.keys && (!p.causal || key + TILE - 1 <= first) && (p.window <= 0 || key > last - p.window);
  return all ? ALL : POSITIONS;
}
DEV bool sees(const DenseAttentionParams& p, const Extent& x, int query, int key) {
  const i64 behind = query + p.offset - key;
  return query < x.queries && key < x.keys && (!p.causal || behind >= 0) && (p.window <= 0 || behind < p.window);
}
/// Not inlined: hundreds of instructions that few tiles need would push the others out of the instruction cache. x: the logit; y: its bend.
__device__ __noinline__ float2 any_logit(const DenseAttentionParams& p, i64 b, int queries, int keys, float dot, int head, int query, int key) {
  const Extent x = {b, 0, 0, queries, keys};
  float bend;
  const float logit = logit_of(p, x, dot, head, query, key, 1.0f, bend);
  return make_float2(logit, bend);
}

#define LOG2E 1.44269504f

/// s[n] = the warp's 16 rows of `left` times rows 8 n to 8 n + 7 of `right`.
template <bool HALF, int D> DEV void multiply_tiles16(float (*s)[4], u32 left, u32 right, int d) {
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
#pragma unroll
  for (int n = 0; n < TILE / 8; ++n) s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0.0f;
#pragma unroll
  for (int i = 0; i < D / 16; ++i) {
    if (i * 16 >= d) break;
    u32 a[4], b[4];
    load_matrices(a, spot<D>(left, warp * 16 + lane % 16, i * 2 + lane / 16));
#pragma unroll
    for (int n = 0; n < TILE / 16; ++n) {
      load_matrices(b, spot<D>(right, n * 16 + lane / 16 * 8 + lane % 8, i * 2 + lane / 8 % 2));
      multiply16<HALF>(s[2 * n], a, b[0], b[1]);
      multiply16<HALF>(s[2 * n + 1], a, b[2], b[3]);
    }
  }
}

/// Row r's element c of a tile.
template <bool HALF, int D> DEV float number16(u32 base, int r, int c) {
  u16 h;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(h) : "r"(spot<D>(base, r, c / 8) + c % 8 * 2));
  return HALF ? from_half(h) : from_bf16(h);
}

/// sums += weights (16 rows of the warp, a column a row of `tile`) times the rows of `tile`. `guarded`: a weight of 0 leaves out what may be NaN or
/// infinite; `spare`: the block's shared memory for that.
template <bool HALF, int D> DEV void add_weighted(float (*sums)[4], const float (*weights)[4], u32 tile, int d, float* spare, bool guarded) {
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  if (!guarded) {
#pragma unroll
    for (int i = 0; i < TILE / 16; ++i) {
      const float *even = weights[2 * i], *odd = weights[2 * i + 1];
      const u32 a[4] = {pack16(even[0], even[1], HALF), pack16(even[2], even[3], HALF), pack16(odd[0], odd[1], HALF), pack16(odd[2], odd[3], HALF)};
#pragma unroll
      for (int n = 0; n < D / 16; ++n) {
        if (n * 16 >= d) break;
        u32 b[4];
        load_transposed(b, spot<D>(tile, i * 16 + lane % 16, n * 2 + lane / 16));
        multiply16<HALF>(sums[2 * n], a, b[0], b[1]);
        multiply16<HALF>(sums[2 * n + 1], a, b[2], b[3]);
      }
    }
    return;
  }
  float* own = spare + warp * 16 * WEIGHT_PITCH;
  __syncwarp();
#pragma unroll
  for (int n = 0; n < TILE / 8; ++n)
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const u32 both = pack16(weights[n][c], 0.0f, HALF);
      own[(g + c / 2 * 8) * WEIGHT_PITCH + n * 8 + 2 * t + c % 2] = HALF ? from_half((u16)both) : from_bf16((u16)both);
    }
  __syncwarp();
#pragma unroll
  for (int n = 0; n < D / 8; ++n) {
    if (n * 8 >= d) break;
#pragma unroll 1
    for (int j = 0; j < TILE; ++j)
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const float w = own[(g + c / 2 * 8) * WEIGHT_PITCH + j];
        if (w != 0.0f) sums[n][c] = fmaf(w, number16<HALF, D>(tile, j, n * 8 + 2 * t + c % 2), sums[n][c]);
      }
  }
}

/// The warp's rows of a tile whose first row is `first`, those before `end`, times factor[row].
template <int D> DEV void store_rows16(const float (*sums)[4], const float* factor, const Operand& o, i64 b, int first, int end, i64 head, int d) {
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int r = first + warp * 16 + g + 8 * h;
    if (r >= end) continue;
    char* row = const_cast<char*>(head_row(o, b, r, head));
#pragma unroll
    for (int n = 0; n < D / 8; ++n)
#pragma unroll
      for (int c = 0; c < 2; ++c)
        if (const int column = n * 8 + 2 * t + c; column < d) store_at(o, row, column, sums[n][2 * h + c] * factor[h]);
  }
}

DEV float quad_max(float v) {
  v = fmaxf(v, __shfl_xor_sync(~0u, v, 1));
  return fmaxf(v, __shfl_xor_sync(~0u, v, 2));
}
DEV float quad_sum(float v) {
  v += __shfl_xor_sync(~0u, v, 1);
  return v + __shfl_xor_sync(~0u, v, 2);
}

/// The tiles of keys and values that a block of queries sees: two stages of both, each in turn.
template <bool HALF, int D> struct KeyTiles {
  enum { BYTES = TILE * D * 2 };
  const Rows16<HALF, D> keys, values;
  const u32 stages;
  const int rows;
  int begin, end;

  DEV KeyTiles(const DenseAttentionParams& p, const Extent& x, i64 kv_head, u32 shared)
      : keys(p.k, x.b, kv_head, p.d), values(p.v, x.b, kv_head, p.dv_size), stages(shared), rows(x.keys) {
    keys_in_sight(p, x, x.first, min((int)TILE, x.rows - x.first), begin, end);
    begin = begin / TILE * TILE;
  }
  /// Where the keys of a tile lie; its values lie BYTES behind them.
  DEV u32 of(int key) const { return stages + (key - begin) / TILE % 2 * (2 * BYTES); }
  /// Begins to bring a tile; one behind the end is empty.
  DEV void fetch(int key) const {
    if (key < end) {
      keys.fetch(of(key), key, rows);
      values.fetch(of(key) + BYTES, key, rows);
    }
    commit_copies();
  }
};

template <bool HALF, int D> DEV void attend16(const DenseAttentionParams& p, float* memory) {
  wait_for_inputs();
  const Extent x = extent_of(p, TILE, p.queries);
  if (x.first >= x.rows) return;
  enum { BYTES = TILE * D * 2 };
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  const i64 head = blockIdx.y, kv_head = head / (p.heads / p.kv_heads);
  const u32 q = smem(memory), stages = q + BYTES;
  float* spare = memory + 5 * BYTES / 4;
  const KeyTiles<HALF, D> tiles(p, x, kv_head, stages);
  float out[D / 8][4] = {}, most[2] = {-INFINITY_F, -INFINITY_F}, sum[2] = {};
  Rows16<HALF, D>(p.q, x.b, head, p.d).fetch(q, x.first, x.rows);
  tiles.fetch(tiles.begin);
  for (int key = tiles.begin; key < tiles.end; key += TILE) {
    tiles.fetch(key + TILE);
    wait_copies<1>();
    const u32 k = tiles.of(key), v = k + BYTES;
    const bool guarded = __syncthreads_or(has_strange<HALF, D>(v));
    float s[TILE / 8][4];
    multiply_tiles16<HALF, D>(s, q, k, p.d);
    const int first = x.first + warp * 16 + g;
    const auto judge = [&](const auto& logit) {
#pragma unroll
      for (int n = 0; n < TILE / 8; ++n)
#pragma unroll
        for (int c = 0; c < 4; ++c) s[n][c] = logit(s[n][c], first + c / 2 * 8, key + n * 8 + 2 * t + c % 2);
    };
    const Sight sight = sight_of(p, x, x.first, key);
    if (sight == ALL) judge([&](float dot, int, int) { return dot * p.scale; });
    else if (sight == POSITIONS) judge([&](float dot, int query, int u) { return sees(p, x, query, u) ? dot * p.scale : -INFINITY_F; });
    else judge([&](float dot, int query, int u) { return any_logit(p, x.b, x.queries, x.keys, dot, head, query, u).x; });
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float largest = -INFINITY_F, added = 0.0f;
#pragma unroll
      for (int n = 0; n < TILE / 8; ++n) largest = fmaxf(largest, fmaxf(s[n][2 * h], s[n][2 * h + 1]));
      const float now = fmaxf(most[h], quad_max(largest)), base = now == -INFINITY_F ? 0.0f : now * LOG2E;
      const float kept = power_of_two(fmaf(most[h], LOG2E, -base));
#pragma unroll
      for (int n = 0; n < TILE / 8; ++n)
#pragma unroll
        for (int c = 2 * h; c < 2 * h + 2; ++c) {
          s[n][c] = power_of_two(fmaf(s[n][c], LOG2E, -base));
          added += s[n][c];
        }
      sum[h] = fmaf(sum[h], kept, quad_sum(added));
      most[h] = now;
#pragma unroll
      for (int n = 0; n < D / 8; ++n) out[n][2 * h] *= kept, out[n][2 * h + 1] *= kept;
    }
    add_weighted<HALF, D>(out, s, v, p.dv_size, spare, guarded);
    __syncthreads();
  }
  float factor[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    factor[h] = sum[h] == 0.0f ? 0.0f : 1.0f / sum[h];
    const int row = x.first + warp * 16 + g + 8 * h;
    if (p.lse.data && t == 0 && row < x.rows)
      *reinterpret_cast<float*>(const_cast<char*>(head_row(p.lse, x.b, row, head))) = sum[h] == 0.0f ? -INFINITY_F : most[h] + logf(sum[h]);
  }
  store_rows16<D>(out, factor, p.y, x.b, x.first, x.rows, head, p.dv_size);
}

/// Dot products to the probabilities that their queries, of this lse, give their keys; dp to the gradients of the dot products. `at(n, c)` has the
/// head's query, the key, lse and the sum of dy y of an element.
struct Place16 {
  int query, key;
  float lse, inner;
};
template <class At> DEV void weigh16(const DenseAttentionParams& p, const Extent& x, Sight sight, int head, float (*s)[4], float (*slopes)[4], const At& at) {
  const auto judge = [&](const auto& logit_and_bend) {
#pragma unroll
    for (int n = 0; n < TILE / 8; ++n)
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const Place16 place = at(n, c);
        const float2 v = logit_and_bend(s[n][c], place.query, place.key);
        s[n][c] = v.x == -INFINITY_F ? 0.0f : v.x == place.lse ? 1.0f : power_of_two((v.x - place.lse) * LOG2E);
        slopes[n][c] = s[n][c] == 0.0f ? 0.0f : s[n][c] * (slopes[n][c] - place.inner) * v.y * p.scale;
      }
  };
  if (sight == ALL) judge([&](float dot, int, int) { return make_float2(dot * p.scale, 1.0f); });
  else if (sight == POSITIONS) judge([&](float dot, int query, int key) { return make_float2(sees(p, x, query, key) ? dot * p.scale : -INFINITY_F, 1.0f); });
  else judge([&](float dot, int query, int key) { return any_logit(p, x.b, x.queries, x.keys, dot, head, query, key); });
}

template <bool HALF, int D> DEV void gradient_of_keys16(const DenseAttentionParams& p, float* memory) {
  wait_for_inputs();
  const Extent x = extent_of(p, TILE, p.keys);
  if (x.first >= x.rows) return;
  enum { BYTES = TILE * D * 2 };
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3, group = p.heads / p.kv_heads;
  const i64 kv_head = blockIdx.y;
  const u32 k = smem(memory), v = k + BYTES, stages = v + BYTES;
  float *of_queries = memory + 6 * BYTES / 4, *spare = of_queries + 4 * TILE;  // of each stage lse and the sums of dy y
  Rows16<HALF, D>(p.k, x.b, kv_head, p.d).fetch(k, x.first, x.rows);
  Rows16<HALF, D>(p.v, x.b, kv_head, p.dv_size).fetch(v, x.first, x.rows);
  float dk[D / 8][4] = {}, dv[D / 8][4] = {};
  int begin, end;
  queries_in_sight(p, x, x.first, min((int)TILE, x.rows - x.first), begin, end);
  begin = begin / TILE * TILE;
  const int tiles = begin < end ? (end - begin + TILE - 1) / TILE : 0;  // of each query head
  const auto fetch = [&](int i) {
    if (i < tiles * group) {
      const i64 head = kv_head * group + i / tiles;
      const int query = begin + i % tiles * TILE;
      const u32 q = stages + i % 2 * (2 * BYTES);
      Rows16<HALF, D>(p.q, x.b, head, p.d).fetch(q, query, x.queries);
      Rows16<HALF, D>(p.dy, x.b, head, p.dv_size).fetch(q + BYTES, query, x.queries);
      if (threadIdx.x < TILE) {
        const int row = min(query + (int)threadIdx.x, x.queries - 1);
        float* to = of_queries + i % 2 * (2 * TILE) + threadIdx.x;
        copy_word_async(smem(to), head_row(p.lse, x.b, row, head));
        copy_word_async(smem(to + TILE), dot_of(p, x.b, row, head));
      }
    }
    commit_copies();
  };
  fetch(0);
  for (int i = 0; i < tiles * group; ++i) {
    fetch(i + 1);
    wait_copies<1>();
    const u32 q = stages + i % 2 * (2 * BYTES), dy = q + BYTES;
    const float* lse = of_queries + i % 2 * (2 * TILE);
    const bool strange = has_strange<HALF, D>(q), guarded = __syncthreads_or(has_strange<HALF, D>(dy) || strange);
    const int query = begin + i % tiles * TILE;
    float s[TILE / 8][4], slopes[TILE / 8][4];
    multiply_tiles16<HALF, D>(s, k, q, p.d);
    multiply_tiles16<HALF, D>(slopes, v, dy, p.dv_size);
    weigh16(p, x, sight_of(p, x, query, x.first), kv_head * group + i / tiles, s, slopes, [&](int n, int c) {
      const int of = n * 8 + 2 * t + c % 2;
      return Place16{query + of, x.first + warp * 16 + g + c / 2 * 8, lse[of], lse[TILE + of]};
    });
    add_weighted<HALF, D>(dv, s, dy, p.dv_size, spare, guarded);
    add_weighted<HALF, D>(dk, slopes, q, p.d, spare, guarded);
    __syncthreads();
  }
  const float factor[2] = {1.0f, 1.0f};
  store_rows16<D>(dk, factor, p.dk, x.b, x.first, x.rows, kv_head, p.d);
  store_rows16<D>(dv, factor, p.dv, x.b, x.first, x.rows, kv_head, p.dv_size);
}

template <bool HALF, int D> DEV void gradient_of_queries16(const DenseAttentionParams& p, float* memory) {
  wait_for_inputs();
  const Extent x = extent_of(p, TILE, p.queries);
  if (x.first >= x.rows) return;
  enum { BYTES = TILE * D * 2 };
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  const i64 head = blockIdx.y, kv_head = head / (p.heads / p.kv_heads);
  const u32 q = smem(memory), dy = q + BYTES, stages = dy + BYTES;
  float* spare = memory + 6 * BYTES / 4;
  const KeyTiles<HALF, D> tiles(p, x, kv_head, stages);
  float dq[D / 8][4] = {}, lse[2], inner[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = min(x.first + warp * 16 + g + 8 * h, x.rows - 1);
    lse[h] = *reinterpret_cast<const float*>(head_row(p.lse, x.b, row, head));
    inner[h] = *dot_of(p, x.b, row, head);
  }
  Rows16<HALF, D>(p.q, x.b, head, p.d).fetch(q, x.first, x.rows);
  Rows16<HALF, D>(p.dy, x.b, head, p.dv_size).fetch(dy, x.first, x.rows);
  tiles.fetch(tiles.begin);
  for (int key = tiles.begin; key < tiles.end; key += TILE) {
    tiles.fetch(key + TILE);
    wait_copies<1>();
    const u32 k = tiles.of(key), v = k + BYTES;
    const bool guarded = __syncthreads_or(has_strange<HALF, D>(k));
    float s[TILE / 8][4], slopes[TILE / 8][4];
    multiply_tiles16<HALF, D>(s, q, k, p.d);
    multiply_tiles16<HALF, D>(slopes, dy, v, p.dv_size);
    weigh16(p, x, sight_of(p, x, x.first, key), head, s, slopes, [&](int n, int c) {
      return Place16{x.first + warp * 16 + g + c / 2 * 8, key + n * 8 + 2 * t + c % 2, lse[c / 2], inner[c / 2]};
    });
    add_weighted<HALF, D>(dq, slopes, k, p.d, spare, guarded);
    __syncthreads();
  }
  const float factor[2] = {1.0f, 1.0f};
  store_rows16<D>(dq, factor, p.dq, x.b, x.first, x.rows, head, p.d);
}
#endif

#if __CUDA_ARCH__ >= 800
#define RUN(what, HALF, D) \
  extern __shared__ __align__(128) float memory[]; \
  what<HALF, D>(p, memory);
#else
#define RUN(what, HALF, D)
#endif
#define KERNELS(name, HALF, D) \
  KERNEL(128) attention_mma_##name(const __grid_constant__ DenseAttentionParams p) { RUN(attend16, HALF, D) } \
  KERNEL(128) attention_mma_keys_##name(const __grid_constant__ DenseAttentionParams p) { RUN(gradient_of_keys16, HALF, D) } \
  KERNEL(128) attention_mma_queries_##name(const __grid_constant__ DenseAttentionParams p) { RUN(gradient_of_queries16, HALF, D) }
