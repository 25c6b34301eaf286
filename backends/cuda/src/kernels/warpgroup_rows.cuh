// y = W x for 33 to 64 rows of f16 activations, W of formats of kquants_formats.cuh, by warpgroups (groups.cuh), for cards of capability 9.0: the kernels
// warpgroup_64_<format>.
//
//   block    warpgroups with 64 rows of W each, one format a warpgroup, and one that brings the activations they share, blocks of 256 in k,
//            to stages in shared memory. So a multiprocessor reads each activation once for up to 256 rows
//   weights  each warp has 16 rows (under glu 8 of gate and 8 of up) in a ring, as in kquants.cuh. Its lanes make f16 numbers of them, two steps of 16
//            while the products of the last two run
//   cluster  blocks that share their rows have each a share of k. Each adds up a part of the sums, which it reads from the others' shared memory
#pragma once
#include "groups.cuh"
#include "half_numbers.cuh"
#include "bulk.cuh"
#include "mixed.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || defined(QUERN_EMULATED_CARD)
/// Part and first row of the tile of a block's warp. Warpgroups of a block have rows far apart: not all of a part that takes longer are in some blocks.
struct GroupTile {
  int part = 0, first;
  DEV GroupTile(const MixedParams& p, int warp) {
    int index = (warp >> 2) * ((int)gridDim.x / p.ways) + (int)blockIdx.x / p.ways;
    warp &= 3;
    if (!p.glu)
      while (part < p.parts - 1 && index >= (p.part[part].rows + 63) / 64) index -= (p.part[part++].rows + 63) / 64;
    first = index * (p.glu ? 32 : 64) + warp * (p.glu ? 8 : 16);
  }
};

/// Where things are in shared memory: barriers, stages of the activations, 64 elements of each column side by side and swizzled, and each warp's ring.
struct GroupShared {
  enum { slab = 64 * 128, stage_bytes = warpgroup_stage_bytes };
  u64 *full, *empty;  // of a stage
  u32 operands, rings;
  int stages, stage_of_ring;
  DEV GroupShared(const MixedParams& p, char* memory)
      : full(reinterpret_cast<u64*>(memory)), empty(full + p.span), operands((smem(memory) + warpgroup_barrier_bytes + 1023) & ~1023u),
        rings(operands + p.span * stage_bytes), stages(p.span), stage_of_ring(p.ring / 2) {}
  DEV u32 operand(int stage) const { return operands + stage * stage_bytes; }
  DEV u32 weights(int stage, int warp) const { return rings + (warp * 2 + stage) * stage_of_ring; }
};

/// The warpgroup that brings blocks `from` to `end` of the activations. A warp has two of each eight columns, a lane a chunk of eight elements of both.
DEV void bring_activations(const MixedParams& p, int from, int end, const GroupShared& shared) {
  const int lane = threadIdx.x & 31, first = (threadIdx.x >> 5 & 3) * 2, count = end - from;
  const char* const column = at<const char>(p.x) + ((i64)from * 64 + first) * OPERAND_PITCH + swizzled_chunk(lane);
  const u32 place = (lane >> 3) * GroupShared::slab + first * 128 + ((lane ^ first) & 7) * 16, other = (place + 128) ^ 16;
  int stage = 0;
  const auto ask = [&](int i) {
    if (i < count) {
      const u32 to = shared.operand(stage);
      if (++stage == shared.stages) stage = 0;
      const char* block = column + (i64)i * (64 * OPERAND_PITCH);
#pragma unroll
      for (int n = 0; n < 64; n += 8) {
        copy_16(to + place + n * 128, block + n * OPERAND_PITCH);
        copy_16(to + other + n * 128, block + (n + 1) * OPERAND_PITCH);
      }
    }
    commit_copies();
  };
  for (int i = 0; i < shared.stages - 1; ++i) ask(i);
  int full = 0, empty = 0;
  u32 parity = 0;
  for (int i = 0; i < count; ++i) {
    if (shared.stages == 2) wait_copies<0>();
    else wait_copies<1>();
    fence_for_groups();
    __syncwarp();
    warp_arrive(&shared.full[full], lane);
    if (++full == shared.stages) full = 0;
    if (i > 0) {
      barrier_wait(&shared.empty[empty], parity);
      if (++empty == shared.stages) empty = 0, parity ^= 1;
    }
    ask(i + shared.stages - 1);
  }
}

/// Blocks `from` to `end` of k of a warp's rows. tot: zeros.
template <int F> DEV void group_products(const Rows& rows, int from, int end, const GroupShared& shared, float* tot) {
  typedef HalfNumbers<F> Numbers;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const Ring<F> ring(rows);
  static_assert(2 * Ring<F>::bytes <= kquants_ring_bytes(Ring<F>::wide), "the host leaves less room");
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (from + i < end) ring.fetch(rows, shared.weights(i, warp), from + i);
    commit_copies();
  }
  wait_previous();
  int stage = 0;
  u32 parity = 0;
  float base[2] = {1.0f, 1.0f};
#pragma unroll 1
  for (int block = from; block < end; ++block) {
    const u32 weights = shared.weights((block - from) & 1, warp);
    wait_copies<1>();
    __syncwarp();
    const Numbers numbers(ring, weights, rows, block);
    u32 a[2][2][4];
#pragma unroll
    for (int i = 0; i < 32; ++i) tot[i] *= base[i >> 1 & 1] * inverse_power(numbers.base[i >> 1 & 1]);
    base[0] = numbers.base[0], base[1] = numbers.base[1];
    const u64 operand = swizzled_matrix(shared.operand(stage), 1, 1024);
    const auto at_step = [&](int step) { return operand + (((step >> 2) * GroupShared::slab + (step & 3) * 32) >> 4); };
    numbers.unit(0, a[0]);
    barrier_wait(&shared.full[stage], parity);
#pragma unroll
    for (int u = 0; u < 8; ++u) {
      if (u > 0) numbers.unit(u, a[u & 1]);
      group_fence();
#pragma unroll
      for (int i = 0; i < 2; ++i) GroupProduct<64, true, false>::add(tot, a[u & 1][i], at_step(Numbers::step_of(u, i)), 1);
      group_commit();
      if (u < 7) group_wait<1>();
    }
    __syncwarp();
    if (block + 2 < end) ring.fetch(rows, weights, block + 2);
    commit_copies();
    group_wait<0>();
    warp_arrive(&shared.empty[stage], lane);
    if (++stage == shared.stages) stage = 0, parity ^= 1;
  }
#pragma unroll
  for (int i = 0; i < 32; ++i) tot[i] *= base[i >> 1 & 1];
}

template <int F, int G> DEV void warpgroup_rows(const MixedParams& p, char* memory) {
  start_next();
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, warps = (blockDim.x >> 5) - 4, blocks = p.k / 256;
  const int rank = (int)blockIdx.x % p.ways, from = blocks * rank / p.ways, end = blocks * (rank + 1) / p.ways;
  const GroupShared shared(p, memory);
  if (threadIdx.x == 0) {
    for (int i = 0; i < p.span; ++i) {
      barrier_init(&shared.full[i], 4 * WARP_ARRIVALS);
      barrier_init(&shared.empty[i], warps * WARP_ARRIVALS);
    }
    fence_barriers();
  }
  __syncthreads();
  if (warp >= warps) {
    less_registers<bringing_registers>();
    wait_previous();
    bring_activations(p, from, end, shared);
    __syncthreads();
    cluster_barrier();
    cluster_barrier();
    return;
  }
  more_registers<warpgroup_registers>();
  float tot[32] = {};
  {
    const GroupTile tile(p, warp);
    const MixedPart& q = p.part[tile.part];
    const Rows rows{q.w, p.part[p.glu ? 1 : tile.part].w, min(tile.first, q.rows - 1), q.rows - 1, blocks, p.glu != 0};
    if (F == G || q.w.dtype == F) group_products<F>(rows, from, end, shared, tot);
    else group_products<G>(rows, from, end, shared, tot);
  }
  // Each warp's sums, eight columns by eight; then the cluster's warps share these.
  float4* const sums = reinterpret_cast<float4*>(memory + (shared.operands - (u32)smem(memory)));
  __syncthreads();
#pragma unroll
  for (int n = 0; n < 8; ++n) sums[(warp * 8 + n) * 32 + lane] = make_float4(tot[n * 4], tot[n * 4 + 1], tot[n * 4 + 2], tot[n * 4 + 3]);
  cluster_barrier();
#pragma unroll 1
  for (int unit = rank * warps + warp; unit < warps * 8; unit += warps * p.ways) {
    float sum[4] = {};
#pragma unroll 4
    for (int way = 0; way < p.ways; ++way) {
      const float4 v = load_of_cluster(smem(sums + unit * 32 + lane), way);
      sum[0] += v.x, sum[1] += v.y, sum[2] += v.z, sum[3] += v.w;
    }
    const GroupTile tile(p, unit / 8);
    store_tile(p, tile.part, tile.first, lane >> 2, unit % 8 * 8, sum);
  }
  cluster_barrier();  // the others read this block's memory
}
#define WARPGROUP_ROWS(F, G) \
  extern __shared__ __align__(128) char memory[]; \
  warpgroup_rows<F, G>(p, memory);
#else
#define WARPGROUP_ROWS(F, G)
#endif
#define WARPGROUP_KERNEL(name, F, G) \
  extern "C" __global__ void __launch_bounds__(warpgroup_threads, 1) warpgroup_64##name(const __grid_constant__ MixedParams p) { WARPGROUP_ROWS(F, G) }
