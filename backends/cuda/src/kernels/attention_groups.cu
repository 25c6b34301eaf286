// Attention of many rows as attention_rows.cu, for Hopper: products of warpgroups, whose keys and values the matrix units read from shared
// memory.
//
//   block    two warpgroups, each 64 rows of one head; keys in tiles of 64 through three stages of asynchronous copies
//   shared   64 elements of a tile's 64 rows side by side, then the next 64: 128 bytes a row, chunk j of 16 at j ^ (r % 8), as the matrix
//            units' swizzle of 128 bytes is; of keys these go along k, of values along n. (In cores of 8 rows x 16 bytes a warp read 64 bytes of a
//            row at a time, and L2 was the limit)
//   order    products with a tile's keys and with the values of the one before start together: the second go on under the softmax
#include "attention_rows.cuh"
#include "groups.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
template <int D, bool HALF> DEV void attend(const AttentionRowsParams& p, char* memory, Info& info) {
  enum { TILE = KEYS * D * 2, HALF_TILE = KEYS * 128 };  // HALF_TILE: bytes of 64 elements of all rows
  wait_for_inputs();
  const int head = blockIdx.x, first_row = (gridDim.y - 1 - blockIdx.y) * ROWS, kv_head = head / (p.heads / p.k.kv_heads);
  const int warp = threadIdx.x >> 5, g = (threadIdx.x & 31) >> 2, group_row = warp / 4 * 64;
  const int rows = min((int)ROWS, p.rows - first_row);
  if (p.most_runs && runs_of(p.k, first_row, rows) > p.most_runs) return;
  read_info(p, first_row, rows, info);
  // Queries: once, through the room of the first stage, chunk by chunk.
  const u32 base = smem(memory);  // a multiple of 1024
  u32 q[D / 16][4];
  load_queries<D>(p, head, first_row, rows, base, q);

  float out[D / 8][4] = {}, most[2] = {-INFINITY_F, -INFINITY_F}, sum[2] = {}, s[KEYS / 8][4];
  u32 weights[KEYS / 16][4];
  const int own[2] = {warp * 16 + g, warp * 16 + g + 8};
  const int position[2] = {info.position[own[0]], info.position[own[1]]};
  for (int row = 0; row < rows;) {
    const Run run = run_from(p, info, row, rows);
    row = run.end_row;
    if (run.of < 0 || run.tiles <= 0) continue;
    // Whether rows of this warpgroup see all keys of a tile. What they do not see is computed too: a branch would part the products.
    int last, least;
    positions_of(info, max(run.first_row, group_row), min(run.end_row, group_row + 64), least, last);
    const bool all_of_run = p.window <= 0 && run.first_row <= group_row && run.end_row >= group_row + 64;
    int page = page_of_tile(p, run, 0);
    const auto fetch = [&](int tile) {
      const u32 k_at = base + tile % STAGES * 2 * TILE;
      const int here = page;
      page = page_of_tile(p, run, tile + 1);
      fetch_tile<D>(p, run, kv_head, tile, here, k_at, k_at + TILE, [](int r, int j) { return (u32)(j / 8 * HALF_TILE + r * 128 + (j % 8 ^ (r & 7)) * 16); });
    };
    const auto scores = [&](int tile) {
      const u32 k_at = base + tile % STAGES * 2 * TILE;
#pragma unroll
      for (int i = 0; i < D / 16; ++i)
        GroupProduct<KEYS, HALF, false>::add(s[0], q[i], swizzled_matrix(k_at + i / 4 * HALF_TILE + i % 4 * 32, 16, 1024), i > 0);
    };
    const auto weigh = [&](int tile, float* factor) {  // scores to weights
      const int key0 = run.begin + tile * KEYS;
      cap_all(p, s);
      if (!all_of_run || key0 + KEYS - 1 > least) hide_keys(p, run, key0, own, position, s);
      soften(p.scale * 1.44269504f, s, most, sum, factor);
    };
    const auto values = [&](int tile) {
      const u32 v_at = base + tile % STAGES * 2 * TILE + TILE;
#pragma unroll
      for (int i = 0; i < KEYS / 16; ++i) GroupProduct<D, HALF, true>::add(out[0], weights[i], swizzled_matrix(v_at + i * 2048, HALF_TILE, 1024), 1);
    };
    const auto tile_is_there = [&] {  // and the one before the last is used
      wait_copies<0>();
      fence_for_groups();
      __syncthreads();
    };
    float factor[2];
    fetch(0);
    commit_copies();
    tile_is_there();
    if (run.tiles > 1) fetch(1);
    commit_copies();
    group_fence();
    scores(0);
    group_commit();
    group_wait<0>();
    weigh(0, factor);
    scale_out<D>(factor, out);
    pack_weights<HALF>(s, weights);
#pragma unroll 1
    for (int tile = 1; tile < run.tiles; ++tile) {
      tile_is_there();
      if (tile + 1 < run.tiles) fetch(tile + 1);
      commit_copies();
      group_fence();
      scores(tile);
      group_commit();
      values(tile - 1);
      group_commit();
      group_wait<1>();
      weigh(tile, factor);
      group_wait<0>();
      scale_out<D>(factor, out);
      pack_weights<HALF>(s, weights);
    }
    group_fence();
    values(run.tiles - 1);
    group_commit();
    group_wait<0>();
    __syncthreads();
  }
  store_rows<D>(p, first_row, rows, head, own, sum, out);
}

#define ATTEND(D, HALF) \
  extern __shared__ __align__(1024) char memory[]; \
  char* stages = memory + (-smem(memory) & 1023); \
  Info& info = *reinterpret_cast<Info*>(stages + STAGES * 2 * KEYS * D * 2); \
  attend<D, HALF>(p, stages, info);
#else
#define ATTEND(D, HALF)
#endif
extern "C" __global__ void __launch_bounds__(256, 1) attention_groups_64_f16(const __grid_constant__ AttentionRowsParams p) { ATTEND(64, true) }
extern "C" __global__ void __launch_bounds__(256, 1) attention_groups_64_bf16(const __grid_constant__ AttentionRowsParams p) { ATTEND(64, false) }
extern "C" __global__ void __launch_bounds__(256, 1) attention_groups_128_f16(const __grid_constant__ AttentionRowsParams p) { ATTEND(128, true) }
extern "C" __global__ void __launch_bounds__(256, 1) attention_groups_128_bf16(const __grid_constant__ AttentionRowsParams p) { ATTEND(128, false) }
