// Attention of many rows as attention_rows.cu, for Hopper: products of warpgroups, whose keys and values the matrix units read from shared
// memory.
//
//   block    two warpgroups, each 64 lines of one kv head; keys in tiles of 64. A third asks for them, by asynchronous copies through five stages:
//            the two wait for keys alone, not for each other, so the softmax of one runs under the products of the other
//   shared   64 elements of a tile's 64 rows side by side, then the next 64: 128 bytes a row, chunk j of 16 at j ^ (r % 8), as the matrix
//            units' swizzle of 128 bytes is; of keys these go along k, of values along n. (In cores of 8 rows x 16 bytes a warp read 64 bytes of a
//            row at a time, and L2 was the limit)
//   order    products with a tile's keys and with the values of the one before start together: the second go on under the softmax
#include "attention_rows.cuh"
#include "bulk.cuh"
#include "groups.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
enum { PRODUCTS = 256, COPIES = 128 };  // threads that multiply, and that copy

/// In shared memory behind the stages.
struct Barriers {
  u64 full[groups_stages], empty[groups_stages];
};
/// The stages one after another, and how often all were used.
struct Ring {
  int slot;
  u32 phase;
  DEV void next() {
    if (++slot == groups_stages) slot = 0, phase ^= 1;
  }
};

template <int D> DEV void copy_tiles(const AttentionRowsParams& p, const Block& block, const Info& info, Barriers& barriers, u32 base) {
  enum { TILE = KEYS * D * 2, HALF_TILE = KEYS * 128 };  // HALF_TILE: bytes of 64 elements of all rows
  const int thread = threadIdx.x - PRODUCTS;
  Ring ring{0, 0};
  for (int row = 0, number = 0; row < block.rows; ++number) {
    const Run run = run_from(p, info, block, row, number);
    row = run.end_row;
    if (run.of < 0 || run.tiles <= 0) continue;
    int page = page_of_tile(p, run, 0);
#pragma unroll 1
    for (int tile = 0; tile < run.tiles; ++tile, ring.next()) {
      const u32 k_at = base + ring.slot * 2 * TILE;
      const int here = page;
      page = page_of_tile(p, run, tile + 1);
      barrier_wait(&barriers.empty[ring.slot], ring.phase ^ 1u);  // of a new barrier the phase before the first is over
      fetch_tile<D, COPIES>(p, run, block.kv_head, thread, tile, here, k_at, k_at + TILE,
                            [](int r, int j) { return (u32)(j / 8 * HALF_TILE + r * 128 + (j % 8 ^ (r & 7)) * 16); });
      barrier_arrive_copies(&barriers.full[ring.slot]);
    }
  }
}

template <int D, bool HALF> DEV void multiply_tiles(const AttentionRowsParams& p, const Block& block, const Info& info, Barriers& barriers, u32 base, const u32 (*q)[4]) {
  enum { TILE = KEYS * D * 2, HALF_TILE = KEYS * 128 };
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, group_row = warp / 4 * 64;
  float out[D / 8][4] = {}, most[2] = {-INFINITY_F, -INFINITY_F}, sum[2] = {}, s[KEYS / 8][4];
  u32 weights[KEYS / 16][4];
  const int line = warp * 16 + g;
  const Line own[2] = {line_of(p, block, line), line_of(p, block, line + 8)};
  const int position[2] = {info.position[line], info.position[line + 8]};
  Ring ring{0, 0};
  for (int row = 0, number = 0; row < block.rows; ++number) {
    const Run run = run_from(p, info, block, row, number);
    row = run.end_row;
    if (run.of < 0 || run.tiles <= 0) continue;
    // Whether lines of this warpgroup see all keys of a tile. What they do not see is computed too: a branch would part the products.
    int last, least;
    positions_of(p, info, run, group_row, group_row + 64, least, last);
    const bool all_of_run = covers(p, block, run, group_row, group_row + 64);
    const auto scores = [&](int slot) {
      const u32 k_at = base + slot * 2 * TILE;
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
    const auto values = [&](int slot) {
      const u32 v_at = base + slot * 2 * TILE + TILE;
#pragma unroll
      for (int i = 0; i < KEYS / 16; ++i) GroupProduct<D, HALF, true>::add(out[0], weights[i], swizzled_matrix(v_at + i * 2048, HALF_TILE, 1024), 1);
    };
    const auto tile_is_there = [&] {
      barrier_wait(&barriers.full[ring.slot], ring.phase);
      fence_for_groups();
    };
    const auto used = [&](int slot) { warp_arrive(&barriers.empty[slot], lane); };
    float factor[2];
    tile_is_there();
    group_fence();
    scores(ring.slot);
    group_commit();
    group_wait<0>();
    weigh(0, factor);
    scale_out<D>(factor, out);
    pack_weights<HALF>(s, weights);
    int before = ring.slot;
    ring.next();
#pragma unroll 1
    for (int tile = 1; tile < run.tiles; ++tile) {
      tile_is_there();
      group_fence();
      scores(ring.slot);
      group_commit();
      values(before);
      group_commit();
      group_wait<1>();
      weigh(tile, factor);
      group_wait<0>();
      used(before);
      scale_out<D>(factor, out);
      pack_weights<HALF>(s, weights);
      before = ring.slot;
      ring.next();
    }
    group_fence();
    values(before);
    group_commit();
    group_wait<0>();
    used(before);
  }
  store_lines<D>(p, block, own, most, sum, out);
}

template <int D, bool HALF> DEV void attend(const AttentionRowsParams& p, char* memory) {
  Info& info = *reinterpret_cast<Info*>(memory + groups_stages * 2 * KEYS * D * 2);
  Barriers& barriers = *reinterpret_cast<Barriers*>(&info + 1);
  wait_for_inputs();
  const Block block = block_of(p);
  if (p.most_runs && runs_of(p.k, block.first_row, block.rows) > p.most_runs) return;
  if (threadIdx.x < groups_stages) {
    barrier_init(&barriers.full[threadIdx.x], COPIES);
    barrier_init(&barriers.empty[threadIdx.x], PRODUCTS / 32 * WARP_ARRIVALS);
    fence_barriers();
  }
  read_info(p, block, info);
  // Queries: once, through the room of the first stage, chunk by chunk.
  const u32 base = smem(memory);  // a multiple of 1024
  u32 q[D / 16][4];
  load_queries<D>(p, block, base, q);
  if (threadIdx.x >= PRODUCTS) {
    less_registers<40>();
    copy_tiles<D>(p, block, info, barriers, base);
  } else {
    more_registers<232>();
    multiply_tiles<D, HALF>(p, block, info, barriers, base, q);
  }
}

#define ATTEND(D, HALF) \
  extern __shared__ __align__(1024) char memory[]; \
  attend<D, HALF>(p, memory + (-smem(memory) & 1023));
#else
#define ATTEND(D, HALF)
#endif
extern "C" __global__ void __launch_bounds__(384, 1) attention_groups_64_f16(const __grid_constant__ AttentionRowsParams p) { ATTEND(64, true) }
extern "C" __global__ void __launch_bounds__(384, 1) attention_groups_64_bf16(const __grid_constant__ AttentionRowsParams p) { ATTEND(64, false) }
extern "C" __global__ void __launch_bounds__(384, 1) attention_groups_128_f16(const __grid_constant__ AttentionRowsParams p) { ATTEND(128, true) }
extern "C" __global__ void __launch_bounds__(384, 1) attention_groups_128_bf16(const __grid_constant__ AttentionRowsParams p) { ATTEND(128, false) }
