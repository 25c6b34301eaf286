// Attention of many rows over paged keys and values on the matrix units: online softmax, memory linear in length.
//
//   grid     (query heads, tiles of 128 rows); tiles with most keys come first
//   block    8 warps, each 16 rows of one head; keys in tiles of 64 through three stages of asynchronous copies
//   shared   3 x (64 keys + 64 values) x d x 2 B: 96 KiB at d = 128
//   banks    chunk j (16 bytes) of row r lies at j ^ (r % 8)
//   rows     of a tile may be of several sequences: each run of rows of one sequence is a pass over its keys, in which warps without
//            rows of the run only copy
//
// Keys behind the last one that a run sees are not read; what a row does not see has a weight of 0. Hopper has attention_groups.cu.
#include "attention_rows.cuh"

#if __CUDA_ARCH__ >= 800
template <int D, bool HALF> DEV void attend(const AttentionRowsParams& p, char* memory, Info& info) {
  enum { TILE = KEYS * D * 2 };
  wait_for_inputs();
  const int head = blockIdx.x, first_row = (gridDim.y - 1 - blockIdx.y) * ROWS, kv_head = head / (p.heads / p.k.kv_heads);
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2;
  const int rows = min((int)ROWS, p.rows - first_row);
  if (p.most_runs && runs_of(p.k, first_row, rows) > p.most_runs) return;
  read_info(p, first_row, rows, info);
  // Queries: once, through the room of the first stage.
  const u32 base = smem(memory);
  u32 q[D / 16][4];
  load_queries<D>(p, head, first_row, rows, base, q);

  float out[D / 8][4] = {}, most[2] = {-INFINITY_F, -INFINITY_F}, sum[2] = {};
  const int own[2] = {warp * 16 + g, warp * 16 + g + 8};
  const int position[2] = {info.position[own[0]], info.position[own[1]]};
  for (int row = 0; row < rows;) {
    const Run run = run_from(p, info, row, rows);
    row = run.end_row;
    if (run.of < 0 || run.tiles <= 0) continue;
    // Keys that this warp's rows of the run see: whole tiles outside are skipped.
    int warp_last, warp_least;
    positions_of(info, max(run.first_row, warp * 16), min(run.end_row, warp * 16 + 16), warp_least, warp_last);
    const bool mine = run.first_row < warp * 16 + 16 && run.end_row > warp * 16;
    int page = page_of_tile(p, run, 0);
    const auto fetch = [&](int tile) {
      const u32 k_at = base + tile % STAGES * 2 * TILE;
      const int here = page;
      page = page_of_tile(p, run, tile + 1);
      fetch_tile<D>(p, run, kv_head, tile, here, k_at, k_at + TILE, [](int r, int j) { return place<D>(0, r, j); });
    };
    fetch(0);
    commit_copies();
    if (run.tiles > 1) fetch(1);
    commit_copies();
#pragma unroll 1
    for (int tile = 0; tile < run.tiles; ++tile) {
      wait_copies<1>();
      __syncthreads();  // this tile is there, and the one before is used
      if (tile + 2 < run.tiles) fetch(tile + 2);
      commit_copies();
      const int key0 = run.begin + tile * KEYS;
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
      cap_all(p, s);
      if (key0 + KEYS - 1 > warp_least || p.window > 0 || run.first_row > warp * 16 || run.end_row < warp * 16 + 16)
        hide_keys(p, run, key0, own, position, s);
      float factor[2];
      soften(p.scale * 1.44269504f, s, most, sum, factor);
      scale_out<D>(factor, out);
      u32 weights[KEYS / 16][4];
      pack_weights<HALF>(s, weights);
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
  store_rows<D>(p, first_row, rows, head, own, sum, out);
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
