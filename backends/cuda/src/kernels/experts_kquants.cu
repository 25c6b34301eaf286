// Products of tokens with the weights of chosen experts, on the matrix units (kquants.cuh). A tile of pairs of one expert is the columns of a
// product with its weights. Their sums may go through a gated activation into the operands of the next product.
//
//   grid     x: tiles of 16 outputs (under glu of 8). y: tiles of pairs. Those beyond the last leave at once.
//   operand  Where shared memory holds all of it, a block's warps take one tile of outputs after another. Their rings of weights run on from tile to
//            tile. Else it comes in chunks, and each warp has one tile.
//   weights  Which they are is known when the kernel before has ended. So none are asked for earlier.
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

/// What activations of a row whose largest is `largest` are multiplied by, a power of two, so that f16 holds them: 1 where it does.
DEV float scale_of_row(float largest) {
  if (!(largest > 0.0f && largest < INFINITY_F) || (largest >= 0.0625f && largest <= 32768.0f)) return 1.0f;
  const int exponent = min(max((int)(__float_as_uint(largest) >> 23) - 127, -126), 126);  // of a subnormal -126
  return __uint_as_float((u32)(127 - exponent) << 23);
}
/// Four activations of a row, from element i on.
DEV float4 load_four(const ExpertTilesParams& p, const char* row, i64 i) {
  if (p.of.a.dtype == F32 && p.of.a.step == 4 && ((Address)row & 15) == 0) return *reinterpret_cast<const float4*>(row + i * 4);
  return make_float4(load_at(p.of.a, row, i), load_at(p.of.a, row, i + 1), load_at(p.of.a, row, i + 2), load_at(p.of.a, row, i + 3));
}
/// The largest size of the lane's elements of a block of 256; not that of NaN.
DEV float largest_of(const ExpertTilesParams& p, const char* row, int block) {
  float largest = 0.0f;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float4 v = load_four(p, row, block * 256 + half * 128 + (threadIdx.x & 31) * 4);
    largest = fmaxf(fmaxf(largest, fmaxf(fabsf(v.x), fabsf(v.y))), fmaxf(fabsf(v.z), fabsf(v.w)));
  }
  return largest;
}
/// Makes a block of 256 of a row's operand times `scale`, in memory of the card or of the block.
DEV void make_operand(const ExpertTilesParams& p, const char* row, int block, float scale, char* to) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const i64 i = block * 256 + half * 128 + (threadIdx.x & 31) * 4;
    float4 v = load_four(p, row, i);
    v.x *= scale, v.y *= scale, v.z *= scale, v.w *= scale;
    store_operand_four(to, p.columns, i, v, true, 0);
  }
}
/// Where an operand has the inverse of its row's scale: in the room behind the means of its first block.
enum { SCALE_PLACE = 576 };

/// What the sums of a column of a tile's operand are multiplied by.
struct ColumnScales {
  Address operand;  // 0: one for all
  float all;
  DEV float of(int column) const { return operand ? at<const float>(operand)[column * (OPERAND_PITCH / 4) + SCALE_PLACE / 4] : all; }
};

/// Stores a lane's sums of the tile that begins at `first` and of eight columns from `left` on.
DEV void store_pairs(const ExpertTilesParams& p, const PairTile& tile, const ColumnScales& scales, int first, int left, const float* sum) {
  const int lane = threadIdx.x & 31, n = (int)p.of.n, output = first + row_of(lane >> 2), column = left + 2 * (lane & 3);
  float scaled[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) scaled[i] = column + (i & 1) < tile.count ? sum[i] * scales.of(column + (i & 1)) : 0.0f;
  if (p.glu) return store_gated(p, p.glu_y + blockIdx.y * operand_size(p, n), tile.count, n - 1, output, left, scaled, 0);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = output + (i >> 1) * 8;
    if (column + (i & 1) < tile.count && row < n)
      store_at(p.of.y, const_cast<char*>(pair_row(p.of, p.of.y, tile.pair(column + (i & 1)))), row, scaled[i] * p.alpha);
  }
}

/// The first output of a block's tile.
DEV int first_output(const ExpertTilesParams& p, int index) { return (index * (int)gridDim.x + (int)blockIdx.x) * (p.glu ? 8 : 16); }

/// Makes the operand of a block's one pair in its memory; all threads. Returns the inverse of its scale.
DEV float make_own_operand(const ExpertTilesParams& p, const PairTile& tile, char* memory) {
  __shared__ float largest[mixed_most_warps(8)];
  const int blocks = (int)(p.of.k / 256), warps = blockDim.x >> 5, warp = threadIdx.x >> 5;
  const char* const row = pair_row(p.of, p.of.a, tile.first);
  float own = 0.0f;
  for (int block = warp; block < blocks; block += warps) own = fmaxf(own, largest_of(p, row, block));
  own = warp_max(own);
  if ((threadIdx.x & 31) == 0) largest[warp] = own;
  __syncthreads();
  for (int w = 0; w < warps; ++w) own = fmaxf(own, largest[w]);
  const float scale = scale_of_row(own);
  for (int block = warp; block < blocks; block += warps) make_operand(p, row, block, scale, memory);
  return 1.0f / scale;
}

/// A tile of outputs a warp, its operand in chunks.
template <int F, int NT>
DEV void chunked_products(const ExpertTilesParams& p, const PairTile& tile, Address x, ColumnScales scales, i64 before, char* memory) {
  const int n = (int)p.of.n, first = first_output(p, (threadIdx.x >> 5) % p.tiles);
  const Rows rows{p.w, p.glu ? p.w2 : p.w, min(first, n - 1), n - 1, (int)(p.of.k / 256), p.glu != 0, before};
  const auto fill = [&] { scales.all = make_own_operand(p, tile, memory); };
  float tot[NT][4] = {};
  all_products<F, NT>(p, x, rows, first < n, memory, tot, fill, [] {});
  join_ways<NT>(p, memory, tot,
                [&](int index, int left, const float* sum, int) { store_pairs(p, tile, scales, first_output(p, index), left, sum); });
}

/// One tile of outputs after another, the whole operand in shared memory. No warp waits for another one but for that.
template <int F, int NT>
DEV void resident_products(const ExpertTilesParams& p, const PairTile& tile, Address x, const ColumnScales& scales, i64 before, char* memory) {
  typedef Ring<F> Weights;
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
    settle_columns<Weights, NT>(tot);
#pragma unroll
    for (int c = 0; c < NT; ++c) store_pairs(p, tile, scales, output, c * 8, tot[c]);
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

template <int F, int NT> DEV void experts_kquants(const ExpertTilesParams& p, char* memory) {
  wait_for_inputs();
  PairTile tile;
  if (pairs_at(p, blockIdx.y, tile)) {
    const Address x = p.x ? p.x + blockIdx.y * operand_size(p, p.of.k) : 0;
    const i64 before = (i64)tile.expert * p.of.n * (p.of.k / 256);
    const ColumnScales scales{p.scaled ? x : 0, 1.0f};
    if (p.resident) resident_products<F, NT>(p, tile, x, scales, before, memory);
    else chunked_products<F, NT>(p, tile, x, scales, before, memory);
  } else if (!p.listed) {
    if (tile.expert == STRAY && blockIdx.x == 0 && threadIdx.x == 0) raise_fault(p.of.faults);
    if (!p.glu && !p.counters) store_zeros(p, tile);
  }
  if (p.counters) sum_last(p);
}
#define EXPERTS_KQUANTS(FORMAT, NT) \
  extern __shared__ __align__(128) char memory[]; \
  experts_kquants<FORMAT, NT>(p, memory);
#else
#define EXPERTS_KQUANTS(FORMAT, NT)
#endif
// Each format has kernels of its own: in common ones it would have the registers of the format that needs most.
#define KERNEL_OF(name, FORMAT, columns, NT) \
  extern "C" __global__ void __launch_bounds__(32 * mixed_most_warps(columns), 1) \
      experts_kquants_##columns##_##name(const __grid_constant__ ExpertTilesParams p) { EXPERTS_KQUANTS(FORMAT, NT) }
#define KERNELS_OF(name, FORMAT) \
  KERNEL_OF(name, FORMAT, 8, 1) \
  KERNEL_OF(name, FORMAT, 16, 2) \
  KERNEL_OF(name, FORMAT, 32, 4)
QUERN_CUDA_HALF_FORMATS(KERNELS_OF)

/// The operands of all tiles, a row a warp; blockIdx.y: the tile.
KERNEL(256) expert_operands(const __grid_constant__ ExpertTilesParams p) {
  wait_for_inputs();
#if __CUDA_ARCH__ >= 900
  PairTile tile;
  const int column = blockIdx.x * 8 + (threadIdx.x >> 5), blocks = (int)(p.of.k / 256);
  if (!pairs_at(p, blockIdx.y, tile) || column >= tile.count) return;
  char* const to = at<char>(p.x) + blockIdx.y * operand_size(p, p.of.k) + operand_row(column, p.columns, 1);
  const char* const row = pair_row(p.of, p.of.a, tile.pair(column));
  float largest = 0.0f;
  for (int block = 0; block < blocks; ++block) largest = fmaxf(largest, largest_of(p, row, block));
  const float scale = scale_of_row(warp_max(largest));
  if ((threadIdx.x & 31) == 0) *reinterpret_cast<float*>(to + SCALE_PLACE) = 1.0f / scale;
  for (int block = 0; block < blocks; ++block) make_operand(p, row, block, scale, to);
#endif
}

KERNEL(256) expert_sums(const __grid_constant__ ExpertSumParams p) {
  wait_for_inputs();
#if __CUDA_ARCH__ >= 900
  const u32 fours = (u32)(p.of.n / 4);
  FOR_EACH(i, p.of.tokens * fours) sum_experts(p.of, p.sum, i / fours, (u32)(i % fours));
#endif
}
