// Attention of many rows over paged keys and values on the matrix units: online softmax, memory linear in length.
//
//   grid     (query heads, tiles of 128 rows); tiles with most keys come first
//   block    8 warps, each 16 lines of one kv head; keys in tiles of 64 through stages of asynchronous copies
//   shared   3 x (64 keys + 64 values) x d x 2 B: 96 KiB at d = 128
//   banks    chunk j (16 bytes) of row r lies at j ^ (r % 8), in rows of whole lines of 128 bytes
//   rows     of a tile may be of several sequences: each run of rows of one sequence is a pass over its keys, in which warps without
//            rows of the run only copy
//
// Keys behind the last one that a run sees are not read; what a row does not see has a weight of 0. Hopper has attention_groups.cu.
#include "attention_rows.cuh"

#if __CUDA_ARCH__ >= 800
template <int D, bool HALF> DEV void attend(const AttentionRowsParams& p, char* memory, Info& info) {
  enum { TILE = KEYS * rows_pitch(D), DEPTH = rows_stages, AHEAD = DEPTH - 1 };
  wait_for_inputs();
  const Block block = block_of(p);
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2;
  if (p.most_runs && runs_of(p.k, block.first_row, block.rows) > p.most_runs) return;
  read_info(p, block, info);
  // Queries: once, through the room of the first stage.
  const u32 base = smem(memory);
  u32 q[D / 16][4];
  load_queries<D>(p, block, base, q);

  float out[D / 8][4] = {}, most[2] = {-INFINITY_F, -INFINITY_F}, sum[2] = {};
  const int line = warp * 16 + g;
  const Line own[2] = {line_of(p, block, line), line_of(p, block, line + 8)};
  const int position[2] = {info.position[line], info.position[line + 8]};
  for (int row = 0, number = 0; row < block.rows; ++number) {
    const Run run = run_from(p, info, block, row, number);
    row = run.end_row;
    if (run.of < 0 || run.tiles <= 0) continue;
    // Keys that this warp's rows of the run see: whole tiles outside are skipped.
    int warp_last, warp_least;
    positions_of(p, info, run, warp * 16, warp * 16 + 16, warp_least, warp_last);
    const bool all_of_run = covers(p, block, run, warp * 16, warp * 16 + 16);
    int page = page_of_tile(p, run, 0);
    const auto fetch = [&](int tile) {
      const u32 k_at = base + tile % DEPTH * 2 * TILE;
      const int here = page;
      page = page_of_tile(p, run, tile + 1);
      fetch_tile<D, 256>(p, run, block.kv_head, threadIdx.x, tile, here, k_at, k_at + TILE, [](int r, int j) { return place<D>(0, r, j); });
    };
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) {
      if (i < run.tiles) fetch(i);
      commit_copies();
    }
#pragma unroll 1
    for (int tile = 0; tile < run.tiles; ++tile) {
      wait_copies<AHEAD - 1>();
      __syncthreads();  // this tile is there, and the one before is used
      if (tile + AHEAD < run.tiles) fetch(tile + AHEAD);
      commit_copies();
      const int key0 = run.begin + tile * KEYS;
      if (key0 > warp_last) continue;  // -1: no line is of the run
      const u32 k_at = base + tile % DEPTH * 2 * TILE, v_at = k_at + TILE;
      float s[KEYS / 8][4];
#pragma unroll
      for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) s[j][e] = 0.0f;
      enum { DEEP = D > 208 ? 1 : 2 };
      u32 b[DEEP][KEYS / 16][4];  // loads run one step ahead of products, where there is room
      const auto load_keys = [&](int i) {
#pragma unroll
        for (int j = 0; j < KEYS / 16; ++j)
          load_matrices(b[i % DEEP][j], place<D>(k_at, j * 16 + lane % 8 + lane / 16 * 8, i * 2 + lane / 8 % 2));
      };
      if (DEEP > 1) load_keys(0);
#pragma unroll
      for (int i = 0; i < D / 16; ++i) {
        if (DEEP == 1) load_keys(i);
        else if (i + 1 < D / 16) load_keys(i + 1);
#pragma unroll
        for (int j = 0; j < KEYS / 16; ++j) {
          multiply16<HALF>(s[2 * j], q[i], b[i % DEEP][j][0], b[i % DEEP][j][1]);
          multiply16<HALF>(s[2 * j + 1], q[i], b[i % DEEP][j][2], b[i % DEEP][j][3]);
        }
      }
      cap_all(p, s);
      if (!all_of_run || key0 + KEYS - 1 > warp_least) hide_keys(p, run, key0, own, position, s);
      float factor[2];
      soften(p.scale * 1.44269504f, s, most, sum, factor);
      scale_out<D>(factor, out);
      u32 weights[KEYS / 16][4];
      pack_weights<HALF>(s, weights);
      u32 v[3][4];  // loads run two steps ahead
      const auto load_values = [&](int n) {  // n counts 16 columns through the 16s of keys
        const int i = n / (D / 16), j = n % (D / 16);
        load_transposed(v[n % 3], place<D>(v_at, i * 16 + lane % 16, j * 2 + lane / 16));
      };
      load_values(0);
      load_values(1);
#pragma unroll
      for (int n = 0; n < KEYS / 16 * (D / 16); ++n) {
        if (n + 2 < KEYS / 16 * (D / 16)) load_values(n + 2);
        const int i = n / (D / 16), j = n % (D / 16);
        multiply16<HALF>(out[2 * j], weights[i], v[n % 3][0], v[n % 3][1]);
        multiply16<HALF>(out[2 * j + 1], weights[i], v[n % 3][2], v[n % 3][3]);
      }
    }
    wait_copies<0>();
    __syncthreads();
  }
  store_lines<D>(p, block, own, most, sum, out);
}
#endif

#if __CUDA_ARCH__ >= 800
enum { MOST_SHARED = __CUDA_ARCH__ >= 1200 ? 101376 : 232448 };  // what no card of that kind has is not compiled: the host does not ask for it
#define ATTEND(D, HALF) \
  extern __shared__ __align__(128) char memory[]; \
  if constexpr (rows_tiles_bytes(D) + sizeof(Info) <= MOST_SHARED) attend<D, HALF>(p, memory, *reinterpret_cast<Info*>(memory + rows_tiles_bytes(D)));
#else
#define ATTEND(D, HALF)
#endif
#define KERNEL_OF(D, HALF, name) \
  extern "C" __global__ void __launch_bounds__(256, 1) attention_rows_##D##_##name(const __grid_constant__ AttentionRowsParams p) { ATTEND(D, HALF) }
#define KERNELS(D) KERNEL_OF(D, true, f16) KERNEL_OF(D, false, bf16)
KERNELS(32)
KERNELS(48)
KERNELS(64)
KERNELS(80)
KERNELS(96)
KERNELS(112)
KERNELS(128)
