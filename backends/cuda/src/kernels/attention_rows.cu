// Attention of many rows over paged keys and values on the matrix units: online softmax, memory linear in length.
//
//   grid     (query heads, tiles of 128 rows); tiles with most keys come first
//   block    8 warps, each 16 rows of one head; keys in tiles of 64 through three stages of asynchronous copies
//   shared   3 x (64 keys + 64 values) x d x 2 B: 96 KiB at d = 128
//   banks    chunk j (16 bytes) of row r lies at j ^ (r % 8)
//   rows     of a tile may be of several sequences: each run of rows of one sequence is a pass over its keys, in which warps without
//            rows of the run only copy
//
// Keys behind the last one that a run sees are not read; what a row does not see has a weight of 0.
#include "kv.cuh"
#include "matrix.cuh"

#if __CUDA_ARCH__ >= 800
enum { ROWS = 128, KEYS = 64, STAGES = 3 };

struct Info {
  int position[ROWS], sequence[ROWS];
};

/// A soft cap on a dot product: its logit is cut, and goes back to the units of dot products.
__device__ __noinline__ float capped(float dot, float scale, float softcap) { return softcap * tanhf(dot * scale / softcap) / scale; }
DEV float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

template <int D> DEV u32 place(u32 base, int r, int j) { return base + r * (D * 2) + (j ^ (r & 7)) * 16; }

template <int D, bool HALF> DEV void attend(const AttentionRowsParams& p, char* memory, Info& info) {
  enum { CHUNKS = D / 8, TILE = KEYS * D * 2 };
  wait_for_inputs();
  const int head = blockIdx.x, first_row = (gridDim.y - 1 - blockIdx.y) * ROWS, kv_head = head / (p.heads / p.k.kv_heads);
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  const int rows = min((int)ROWS, p.rows - first_row);
  for (int r = threadIdx.x; r < ROWS; r += 256) {
    int position = r < rows ? at<const int>(p.k.position)[first_row + r] : -1;
    const int sequence = r < rows ? at<const int>(p.k.row_slot)[first_row + r] : -1;
    if (position != -1 && (position < 0 || sequence < 0 || sequence >= p.k.sequences)) {
      raise_fault(p.faults);
      position = -1;
    }
    info.position[r] = position;
    info.sequence[r] = position < 0 ? -1 : sequence;
  }
  // Queries: once, through the room of the first stage.
  const u32 base = smem(memory);
  u32 q[D / 16][4];
  for (int e = threadIdx.x; e < ROWS * CHUNKS; e += 256) {
    const int r = e / CHUNKS, j = e % CHUNKS;
    const bool there = r < rows;
    copy_async(place<D>(base, r, j), at<const u16>(p.q16) + (there ? ((i64)(first_row + r) * p.heads + head) * D + j * 8 : 0),
               there ? 16 : 0);
  }
  commit_copies();
  wait_copies<0>();
  __syncthreads();
#pragma unroll
  for (int i = 0; i < D / 16; ++i) load_matrices(q[i], place<D>(base, warp * 16 + lane % 16, i * 2 + lane / 16));
  __syncthreads();

  float out[D / 8][4] = {}, most[2] = {-INFINITY_F, -INFINITY_F}, sum[2] = {};
  const int own[2] = {warp * 16 + g, warp * 16 + g + 8};
  const int position[2] = {info.position[own[0]], info.position[own[1]]};
  for (int run = 0; run < rows;) {
    const int of = info.sequence[run];
    int end_row = run, last = -1, least = 0x7fffffff;
    while (end_row < rows && info.sequence[end_row] == of) {
      last = max(last, info.position[end_row]);
      least = min(least, info.position[end_row]);
      ++end_row;
    }
    const int first_of_run = run;
    run = end_row;
    if (of < 0) continue;
    const int end = min(last + 1, p.k.pages_per_sequence * p.k.page);
    const int begin = (p.window > 0 ? max(0, least - p.window + 1) : 0) / KEYS * KEYS;
    const int tiles = (end - begin + KEYS - 1) / KEYS;
    const int* table = at<const int>(p.k.block_table) + (i64)of * p.k.pages_per_sequence;
    const bool mine = first_of_run < warp * 16 + 16 && end_row > warp * 16;
    // Keys that this warp's rows of the run see: whole tiles outside are skipped.
    int warp_last = -1, warp_least = 0x7fffffff;
    for (int r = max(first_of_run, warp * 16); r < min(end_row, warp * 16 + 16); ++r) {
      warp_last = max(warp_last, info.position[r]);
      warp_least = min(warp_least, info.position[r]);
    }
    const auto fetch = [&](int tile) {
      const u32 k_at = base + tile % STAGES * 2 * TILE, v_at = k_at + TILE;
      const int first_key = begin + tile * KEYS;
      if (p.k.page % KEYS == 0) {  // one page has them all
        const int page = table[first_key / p.k.page];
        const bool present = page >= 0 && page < p.k.pages;
        const i64 from = present ? (((i64)page * p.k.kv_heads + kv_head) * p.k.page + first_key % p.k.page) * D : 0;
#pragma unroll
        for (int i = 0; i < KEYS * CHUNKS / 256; ++i) {
          const int e = threadIdx.x + i * 256, r = e / CHUNKS, j = e % CHUNKS;
          const bool there = present && first_key + r < end;
          const i64 at_chunk = there ? from + e * 8 : 0;
          copy_async(place<D>(k_at, r, j), at<const u16>(p.k.cache) + at_chunk, there ? 16 : 0);
          copy_async(place<D>(v_at, r, j), at<const u16>(p.v.cache) + at_chunk, there ? 16 : 0);
        }
        return;
      }
#pragma unroll 1
      for (int i = 0; i < KEYS * CHUNKS / 256; ++i) {
        const int e = threadIdx.x + i * 256, r = e / CHUNKS, j = e % CHUNKS, key = first_key + r;
        const int page = key < end ? table[key / p.k.page] : -1;
        const bool there = page >= 0 && page < p.k.pages;
        const i64 from = there ? (((i64)page * p.k.kv_heads + kv_head) * p.k.page + key % p.k.page) * D + j * 8 : 0;
        copy_async(place<D>(k_at, r, j), at<const u16>(p.k.cache) + from, there ? 16 : 0);
        copy_async(place<D>(v_at, r, j), at<const u16>(p.v.cache) + from, there ? 16 : 0);
      }
    };
    fetch(0);
    commit_copies();
    if (tiles > 1) fetch(1);
    commit_copies();
#pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile) {
      wait_copies<1>();
      __syncthreads();  // this tile is there, and the one before is used
      if (tile + 2 < tiles) fetch(tile + 2);
      commit_copies();
      const int key0 = begin + tile * KEYS;
      if (!mine || key0 > warp_last) continue;
      const u32 k_at = base + tile % STAGES * 2 * TILE, v_at = k_at + TILE;
      float s[KEYS / 8][4];
#pragma unroll
      for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) s[j][e] = 0.0f;
      u32 b[2][KEYS / 16][4];  // loads run one step ahead of products
      const auto load_keys = [&](int i) {
#pragma unroll
        for (int j = 0; j < KEYS / 16; ++j)
          load_matrices(b[i & 1][j], place<D>(k_at, j * 16 + lane % 8 + lane / 16 * 8, i * 2 + lane / 8 % 2));
      };
      load_keys(0);
#pragma unroll
      for (int i = 0; i < D / 16; ++i) {
        if (i + 1 < D / 16) load_keys(i + 1);
#pragma unroll
        for (int j = 0; j < KEYS / 16; ++j) {
          multiply16<HALF>(s[2 * j], q[i], b[i & 1][j][0], b[i & 1][j][1]);
          multiply16<HALF>(s[2 * j + 1], q[i], b[i & 1][j][2], b[i & 1][j][3]);
        }
      }
      if (p.softcap > 0.0f) {
#pragma unroll
        for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e) s[j][e] = capped(s[j][e], p.scale, p.softcap);
      }
      if (key0 + KEYS - 1 > warp_least || p.window > 0 || first_of_run > warp * 16 || end_row < warp * 16 + 16) {
        // Keys that row r sees: from lowest[r] to highest[r].
        int lowest[2], highest[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          highest[r] = own[r] >= first_of_run && own[r] < end_row ? position[r] : -1;
          lowest[r] = p.window > 0 ? position[r] - p.window + 1 : 0;
        }
#pragma unroll
        for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int key = key0 + j * 8 + 2 * t + (e & 1);
            if (key > highest[e / 2] || key < lowest[e / 2]) s[j][e] = -INFINITY_F;
          }
      }
      // Softmax in powers of two; the scale is positive, so that the largest dot product has the largest logit.
      const float unit = p.scale * 1.44269504f;
      float top[2] = {most[0], most[1]}, factor[2], minus[2];
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
      if (__any_sync(~0u, factor[0] != 1.0f || factor[1] != 1.0f)) {
#pragma unroll
        for (int j = 0; j < D / 8; ++j) {
          out[j][0] *= factor[0];
          out[j][1] *= factor[0];
          out[j][2] *= factor[1];
          out[j][3] *= factor[1];
        }
      }
      u32 weights[KEYS / 16][4];
#pragma unroll
      for (int j = 0; j < KEYS / 8; ++j) {
        float e[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          e[i] = power_of_two(fmaf(s[j][i], unit, minus[i / 2]));
          sum[i / 2] += e[i];
        }
        weights[j / 2][j % 2 * 2] = HALF ? pack_half(e[0], e[1]) : pack_bf16(e[0], e[1]);
        weights[j / 2][j % 2 * 2 + 1] = HALF ? pack_half(e[2], e[3]) : pack_bf16(e[2], e[3]);
      }
      u32 v[2][2][4];
      const auto load_values = [&](int n) {  // n counts pairs of 16 columns through the 16s of keys
        const int i = n / (D / 32), j = n % (D / 32) * 2;
#pragma unroll
        for (int h = 0; h < 2; ++h) load_transposed(v[n & 1][h], place<D>(v_at, i * 16 + lane % 16, (j + h) * 2 + lane / 16));
      };
      load_values(0);
#pragma unroll
      for (int n = 0; n < KEYS / 16 * (D / 32); ++n) {
        if (n + 1 < KEYS / 16 * (D / 32)) load_values(n + 1);
        const int i = n / (D / 32), j = n % (D / 32) * 2;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          multiply16<HALF>(out[2 * (j + h)], weights[i], v[n & 1][h][0], v[n & 1][h][1]);
          multiply16<HALF>(out[2 * (j + h) + 1], weights[i], v[n & 1][h][2], v[n & 1][h][3]);
        }
      }
    }
    wait_copies<0>();
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    sum[r] += __shfl_xor_sync(~0u, sum[r], 1);
    sum[r] += __shfl_xor_sync(~0u, sum[r], 2);
    if (own[r] >= rows) continue;
    const float inverse = sum[r] > 0.0f ? 1.0f / sum[r] : sum[r] == 0.0f ? 0.0f : sum[r];  // a NaN stays one
    const i64 to = ((i64)(first_row + own[r]) * p.heads + head) * D;
#pragma unroll
    for (int j = 0; j < D / 8; ++j) {
      const float a = out[j][2 * r] * inverse, b = out[j][2 * r + 1] * inverse;
      if (p.y16) *reinterpret_cast<u32*>(at<u16>(p.y16) + to + j * 8 + 2 * t) = pack16(a, b, p.half);
      else *reinterpret_cast<float2*>(at<float>(p.y) + to + j * 8 + 2 * t) = make_float2(a, b);
    }
  }
}
#endif

#if __CUDA_ARCH__ >= 800
#define ATTEND(D, HALF) \
  extern __shared__ __align__(128) char memory[]; \
  Info& info = *reinterpret_cast<Info*>(memory + STAGES * 2 * KEYS * D * 2); \
  attend<D, HALF>(p, memory, info);
#else
#define ATTEND(D, HALF)
#endif
extern "C" __global__ void __launch_bounds__(256, 1) attention_rows_64_f16(const __grid_constant__ AttentionRowsParams p) {
  ATTEND(64, true)
}
extern "C" __global__ void __launch_bounds__(256, 1) attention_rows_64_bf16(const __grid_constant__ AttentionRowsParams p) {
  ATTEND(64, false)
}
extern "C" __global__ void __launch_bounds__(256, 1) attention_rows_128_f16(const __grid_constant__ AttentionRowsParams p) {
  ATTEND(128, true)
}
extern "C" __global__ void __launch_bounds__(256, 1) attention_rows_128_bf16(const __grid_constant__ AttentionRowsParams p) {
  ATTEND(128, false)
}
