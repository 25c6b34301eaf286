// Products with block-quantised weights on the matrix units, for cards with bulk copies (9.0 and newer): what kquants.cu and experts_kquants.cu
// share. Formats are those of kquants_formats.cuh.
//
//   weights  each warp has 16 rows of W (under glu 8 of gate and 8 of up) and a ring of blocks of 256 of them in shared memory, which its
//            lanes fill 16 bytes at a time: the first are asked for before the wait for the kernel before
//   block    `ways` warps share a tile along k, every `ways`-th block of 256 each, and add up at the end; all go through k together, since
//            they share the activations. Tiles of a block are far apart, so that those of Q6_K, which take longer, are not all in some blocks
//   columns  activations come in chunks, two of them under way, as they lie in memory (operand.cuh)
#pragma once
#include "mixed.hpp"
#include "bulk.cuh"
#include "kquants_formats.cuh"
#include "mixed.cuh"

#if __CUDA_ARCH__ >= 900
/// Where things are in shared memory: two chunks of activations, barriers, the rings of the warps, their tail. P: parameters with the shares of
/// MixedParams (tiles to ring).
struct Shared {
  int block, chunk;  // bytes of activations
  template <class P> DEV explicit Shared(const P& p) : block(p.columns * OPERAND_PITCH), chunk(p.ways * p.span * block) {}
  template <class P> DEV char* ring(const P& p, char* memory, int warp) const {
    return memory + 2 * chunk + mixed_barrier_bytes + warp * p.ring;
  }
  template <class P> DEV char* tail(const P& p, char* memory) const { return ring(p, memory, blockDim.x >> 5); }
};

/// All blocks of 256 of a warp, if there are `some`: a chunk has `span` of them for each. x: the operand; 0: `fill`, called by all threads, makes it in
/// shared memory, where one chunk holds it. `ask_more` asks for what else comes from global memory, behind the first chunks.
template <int F, int NT, class P, class Fill, class Ask>
DEV void all_products(const P& p, Address x, const Rows& rows, bool some, char* memory, float (*tot)[4], const Fill& fill, const Ask& ask_more) {
  const int warp = threadIdx.x >> 5, way = warp / p.tiles, blocks = rows.blocks, mine = some ? (blocks - way + p.ways - 1) / p.ways : 0;
  const int of_chunk = p.ways * p.span, chunks = (blocks + of_chunk - 1) / of_chunk, pitch = NT > 1 || p.columns > 1 ? OPERAND_PITCH : 0;
  const Shared shared(p);
  u64* full = reinterpret_cast<u64*>(memory + 2 * shared.chunk);
  const u32 stages = smem(shared.ring(p, memory, warp));
  const Ring<F> ring(rows);
  enum { S = Ring<F>::stages };
  static_assert(S * Ring<F>::bytes <= kquants_ring_bytes(Ring<F>::wide), "the host leaves less room");
#pragma unroll
  for (int s = 0; s < S; ++s) {
    if (s < mine) ring.fetch(rows, stages + s * Ring<F>::bytes, s * p.ways + way);
    commit_copies();
  }
  const auto ask = [&](int chunk) {  // one thread
    const int here = min(shared.chunk, blocks * shared.block - chunk * shared.chunk);
    barrier_expect(&full[chunk & 1], here);
    bulk_copy(memory + (chunk & 1) * shared.chunk, at<const char>(x) + (i64)chunk * shared.chunk, here, &full[chunk & 1]);
  };
  if (threadIdx.x == 0) {
    barrier_init(&full[0], 1);
    barrier_init(&full[1], 1);
    fence_barriers();
  }
  wait_previous();
  if (!x) fill();
  __syncthreads();
  if (threadIdx.x == 0) {
    if (!x) barrier_expect(&full[0], 0);
    else
      for (int chunk = 0; chunk < min(chunks, 2); ++chunk) ask(chunk);
  }
  ask_more();
  int s = 0, j = 0;
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; ++chunk) {
    barrier_wait(&full[chunk & 1], (u32)(chunk >> 1) & 1u);
#pragma unroll 1
    for (int i = 0; i < p.span && j < mine; ++i, ++j) {
      wait_copies<S - 1>();
      __syncwarp();
      block_products<NT>(ring, rows, j * p.ways + way, stages + s * Ring<F>::bytes,
                         smem(memory) + (chunk & 1) * shared.chunk + (i * p.ways + way) * shared.block, pitch, tot);
      __syncwarp();
      if (j + S < mine) ring.fetch(rows, stages + s * Ring<F>::bytes, (j + S) * p.ways + way);
      commit_copies();
      s = s + 1 == S ? 0 : s + 1;
    }
    if (chunk + 2 >= chunks) continue;
    __syncthreads();
    if (threadIdx.x == 0) ask(chunk + 2);
  }
  settle_columns<Ring<F>, NT>(tot);
  commit_copies();
  wait_copies<0>();
}

/// Adds up what the warps that share a tile have: `store(tile of the block, first column, sums, unit)` gets a lane's sums of
/// eight columns; a warp's first unit is its number.
template <int NT, class P, class Store> DEV void join_ways(const P& p, char* memory, const float (*tot)[4], const Store& store) {
  const int warps = blockDim.x >> 5, warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  // Each warp's sums lie where its ring was. Then the warps share tiles and columns.
  const Shared shared(p);
  __syncwarp();
#pragma unroll
  for (int n = 0; n < NT; ++n)
    *reinterpret_cast<float4*>(shared.ring(p, memory, warp) + n * 512 + lane * 16) = make_float4(tot[n][0], tot[n][1], tot[n][2], tot[n][3]);
  __syncthreads();
#pragma unroll 1
  for (int unit = warp; unit < p.tiles * NT; unit += warps) {
    const int index = unit / NT, n = unit % NT;
    float sum[4] = {};
#pragma unroll 1
    for (int way = 0; way < p.ways; ++way) {
      const float4 v = *reinterpret_cast<const float4*>(shared.ring(p, memory, way * p.tiles + index) + n * 512 + lane * 16);
      sum[0] += v.x, sum[1] += v.y, sum[2] += v.z, sum[3] += v.w;
    }
    store(index, n * 8, sum, unit);
  }
}
#endif
