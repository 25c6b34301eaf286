// Products of tokens with the Q4_K weights of chosen experts, on the matrix units (kquants.cuh): a tile of pairs of one expert is the columns of a
// product with its weights. Their sums may go through a gated activation into the operands of the next product.
//
//   grid    x: tiles of 16 outputs (under glu of 8), y: tiles of pairs; those beyond the last leave at once
//   operand where shared memory holds all of it, a block's warps take one tile of outputs after another, and their rings of weights run on from
//           tile to tile; else in chunks, and each warp has one tile
//   weights which they are is known when the kernel before has ended, so none are asked for earlier
#include "experts_kquants.hpp"
#include "experts.cuh"
#include "kquants.cuh"

#if __CUDA_ARCH__ >= 900
/// Pairs of one expert.
struct PairTile {
  int expert, first, count;
  const int* order;  // null: pair i is the i-th

  DEV i64 pair(int i) const { return order ? order[first + i] : first + i; }
};
/// Tile `index`; false: there is none, or its pair has no expert.
DEV bool pairs_at(const ExpertTilesParams& p, int index, PairTile& tile) {
  tile.order = p.listed ? at<const int>(p.of.order) : nullptr;
  if (p.listed) return pairs_of_tile(p.of, index, tile.expert, tile.first, tile.count);
  tile.first = index;
  tile.count = 1;
  tile.expert = expert_of(p.of, index);
  return tile.expert >= 0;
}
/// Bytes of an operand of `elements` elements a column.
DEV i64 operand_size(const ExpertTilesParams& p, i64 elements) { return elements / 256 * p.columns * OPERAND_PITCH; }

/// Stores a lane's sums of the tile that begins at `first` and of eight columns from `left` on.
DEV void store_pairs(const ExpertTilesParams& p, const PairTile& tile, int first, int left, const float* sum) {
  const int lane = threadIdx.x & 31, n = (int)p.of.n, output = first + row_of(lane >> 2);
  if (p.glu) return store_gated(p, p.glu_y + blockIdx.y * operand_size(p, n), tile.count, n - 1, output, left, sum);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int column = left + 2 * (lane & 3) + (i & 1), row = output + (i >> 1) * 8;
    if (column < tile.count && row < n)
      store_at(p.of.y, const_cast<char*>(pair_row(p.of, p.of.y, tile.pair(column))), row, sum[i] * p.alpha);
  }
}

/// Makes the operand of a warp's share of a row of activations, in memory of the card or of the block.
DEV void make_operand(const ExpertTilesParams& p, i64 pair, int block, char* to) {
  const char* const row = pair_row(p.of, p.of.a, pair);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const i64 i = block * 256 + half * 128 + (threadIdx.x & 31) * 4;
    float4 v;
    if (p.of.a.dtype == F32 && p.of.a.step == 4 && ((Address)row & 15) == 0) v = *reinterpret_cast<const float4*>(row + i * 4);
    else v = make_float4(load_at(p.of.a, row, i), load_at(p.of.a, row, i + 1), load_at(p.of.a, row, i + 2), load_at(p.of.a, row, i + 3));
    store_operand_four(to, p.columns, i, v, true);
  }
}

/// The first output of a block's tile.
DEV int first_output(const ExpertTilesParams& p, int index) { return (index * (int)gridDim.x + (int)blockIdx.x) * (p.glu ? 8 : 16); }

/// A tile of outputs a warp, its operand in chunks.
template <int NT> DEV void chunked_products(const ExpertTilesParams& p, const PairTile& tile, Address x, i64 before, char* memory) {
  const int n = (int)p.of.n, blocks = (int)(p.of.k / 256), warps = blockDim.x >> 5, warp = threadIdx.x >> 5;
  const int first = first_output(p, warp % p.tiles);
  const Rows rows{p.w, p.glu ? p.w2 : p.w, min(first, n - 1), n - 1, blocks, p.glu != 0, before};
  const auto fill = [&] {
    for (int block = warp; block < blocks; block += warps) make_operand(p, tile.first, block, memory);
  };
  float tot[NT][4] = {};
  all_products<Q4_K, NT>(p, x, rows, first < n, memory, tot, fill, [] {});
  join_ways<NT>(p, memory, tot, [&](int index, int left, const float* sum, int) { store_pairs(p, tile, first_output(p, index), left, sum); });
}

/// One tile of outputs after another, the whole operand in shared memory. No warp waits for another one but for that.
template <int NT> DEV void resident_products(const ExpertTilesParams& p, const PairTile& tile, Address x, i64 before, char* memory) {
  typedef Ring<Q4_K> Weights;
  enum { S = Weights::stages };
  const int n = (int)p.of.n, blocks = (int)(p.of.k / 256), outputs = p.glu ? 8 : 16, warps = blockDim.x >> 5, warp = threadIdx.x >> 5;
  const int apart = warps * (int)gridDim.x * outputs, first = (warp * (int)gridDim.x + (int)blockIdx.x) * outputs;
  const auto rows_at = [&](int output) {
    return Rows{p.w, p.glu ? p.w2 : p.w, min(output, n - 1), n - 1, blocks, p.glu != 0, before};
  };
  const int operand = (int)operand_size(p, p.of.k), block_bytes = p.columns * OPERAND_PITCH;
  u64* const full = reinterpret_cast<u64*>(memory + operand);
  const u32 stages = smem(memory + operand + mixed_barrier_bytes + warp * p.ring);
  if (threadIdx.x == 0) {
    barrier_init(full, 1);
    fence_barriers();
    barrier_expect(full, operand);
    bulk_copy(memory, at<const char>(x), operand, full);
  }
  int asked = first, asked_block = 0, ahead = 0;  // what the ring gets next
  Rows rows = rows_at(asked);
  Weights ring(rows);
  const auto ask = [&] {
    if (asked < n) {
      ring.fetch(rows, stages + ahead * Weights::bytes, asked_block);
      if (++asked_block == blocks) {
        asked_block = 0;
        asked += apart;
        ring = Weights(rows_at(asked));
      }
    }
    ahead = ahead + 1 == S ? 0 : ahead + 1;
    commit_copies();
  };
#pragma unroll
  for (int s = 0; s < S; ++s) ask();
  __syncthreads();  // the barrier is made
  barrier_wait(full, 0);
  int s = 0;
#pragma unroll 1
  for (int output = first; output < n; output += apart) {
    float tot[NT][4] = {};
#pragma unroll 1
    for (int block = 0; block < blocks; ++block) {
      wait_copies<S - 1>();
      __syncwarp();
      block_products<NT>(ring, rows, block, stages + s * Weights::bytes, smem(memory) + block * block_bytes, OPERAND_PITCH, tot);
      __syncwarp();
      ask();
      s = s + 1 == S ? 0 : s + 1;
    }
#pragma unroll
    for (int c = 0; c < NT; ++c) store_pairs(p, tile, output, c * 8, tot[c]);
  }
  wait_copies<0>();
}

/// Four outputs of a token: their sum over its experts. Pairs without an expert have no product, and add nothing.
DEV void sum_experts(const ExpertParams& of, const ExpertSum& sum, i64 token, u32 four) {
  const i64 fours = of.n / 4, place = token * fours + four;
  float4 y = sum.residual ? at<const float4>(sum.residual)[place] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  const char* const weights = at<const char>(sum.weight.data) + token * sum.weight.strides[0];
#pragma unroll 4
  for (int u = 0; u < (int)of.used; ++u) {
    const i64 pair = token * of.used + u;
    const bool there = expert_of(of, pair) >= 0;
    const float weight = *reinterpret_cast<const float*>(weights + u * sum.weight.step);
    const float4 x = there ? __ldcg(at<const float4>(sum.x) + pair * fours + four) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (!there) continue;
    y.x = fmaf(weight, x.x, y.x);
    y.y = fmaf(weight, x.y, y.y);
    y.z = fmaf(weight, x.z, y.z);
    y.w = fmaf(weight, x.w, y.w);
  }
  at<float4>(sum.y)[place] = y;
}

/// The block that is the last of a token's to come here sums the outputs that they have in common.
DEV void sum_last(const ExpertTilesParams& p) {
  __shared__ bool last;
  const i64 token = token_of(p.of, blockIdx.y);
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    u32* const counter = at<u32>(p.counters) + token * gridDim.x + blockIdx.x;
    last = atomicAdd(counter, 1u) == (u32)p.of.used - 1;
    if (last) *counter = 0;
    __threadfence();
  }
  __syncthreads();
  if (!last) return;
  for (int i = threadIdx.x; i < p.tiles * 4; i += blockDim.x) {
    const u32 four = (u32)first_output(p, i / 4) / 4 + (u32)i % 4;
    if (four < (u32)(p.of.n / 4)) sum_experts(p.of, p.sum, token, four);
  }
}

/// What a pair without an expert has, where others read it.
DEV void store_zeros(const ExpertTilesParams& p, const PairTile& tile) {
  char* const row = const_cast<char*>(pair_row(p.of, p.of.y, tile.first));
  for (int i = threadIdx.x; i < p.tiles * 16; i += blockDim.x) {
    const int output = first_output(p, i / 16) + i % 16;
    if (output < (int)p.of.n) store_at(p.of.y, row, output, 0.0f);
  }
}

template <int NT> DEV void experts_kquants(const ExpertTilesParams& p, char* memory) {
  wait_for_inputs();
  PairTile tile;
  if (pairs_at(p, blockIdx.y, tile)) {
    const Address x = p.x ? p.x + blockIdx.y * operand_size(p, p.of.k) : 0;
    const i64 before = (i64)tile.expert * p.of.n * (p.of.k / 256);
    if (p.resident) resident_products<NT>(p, tile, x, before, memory);
    else chunked_products<NT>(p, tile, x, before, memory);
  } else if (!p.listed) {
    if (tile.expert == STRAY && blockIdx.x == 0 && threadIdx.x == 0) raise_fault(p.of.faults);
    if (!p.glu && !p.counters) store_zeros(p, tile);
  }
  if (p.counters) sum_last(p);
}
#define EXPERTS_KQUANTS(NT) \
  extern __shared__ __align__(128) char memory[]; \
  experts_kquants<NT>(p, memory);
#else
#define EXPERTS_KQUANTS(NT)
#endif
#define KERNEL_OF(columns, NT) \
  extern "C" __global__ void __launch_bounds__(32 * mixed_most_warps(columns), 1) \
      experts_kquants_##columns(const __grid_constant__ ExpertTilesParams p) { EXPERTS_KQUANTS(NT) }
KERNEL_OF(8, 1)
KERNEL_OF(16, 2)
KERNEL_OF(32, 4)

/// The operands of all tiles; blockIdx.y: the tile.
KERNEL(256) expert_operands(const __grid_constant__ ExpertTilesParams p) {
  wait_for_inputs();
#if __CUDA_ARCH__ >= 900
  PairTile tile;
  if (!pairs_at(p, blockIdx.y, tile)) return;
  const int blocks = (int)(p.of.k / 256);
  char* const to = at<char>(p.x) + blockIdx.y * operand_size(p, p.of.k);
  for (int item = blockIdx.x * 8 + (threadIdx.x >> 5); item < tile.count * blocks; item += gridDim.x * 8) {
    const int column = item / blocks;
    make_operand(p, tile.pair(column), item % blocks, to + operand_row(column, p.columns, 1));
  }
#endif
}

KERNEL(256) expert_sums(const __grid_constant__ ExpertSumParams p) {
  wait_for_inputs();
#if __CUDA_ARCH__ >= 900
  const u32 fours = (u32)(p.of.n / 4);
  FOR_EACH(i, p.of.tokens * fours) sum_experts(p.of, p.sum, i / fours, (u32)(i % fours));
#endif
}
