// matmul_id and its gradient: pairs of a token and an expert are put in order by expert, then each expert's pairs are rows of a product.
#include "experts.hpp"
#include "activation.cuh"
#include "strided.cuh"
#include "tile_product.cuh"

enum { DROPPED = -1, STRAY = -2 };
DEV int expert_of(const ExpertParams& p, i64 pair) {
  const int e = *reinterpret_cast<const int*>(at<const char>(p.id.data) + pair / p.used * p.id.strides[0] + pair % p.used * p.id.step);
  return e == -1 ? DROPPED : e >= 0 && e < p.experts ? e : STRAY;
}
/// That of a pair whose token the predicate lets through.
DEV int live_expert_of(const ExpertParams& p, i64 pair) { return is_live(p.live, pair / p.used) ? expert_of(p, pair) : DROPPED; }
DEV const char* pair_row(const ExpertParams& p, const Operand& o, i64 pair) {
  return at<const char>(o.data) + pair / p.used * o.strides[0] + pair % p.used * o.strides[1];
}

/// One block an expert: how many pairs come before its own, then these, in their order.
KERNEL(256) expert_lists(const __grid_constant__ ExpertParams p) {
  __shared__ int before, found[8];
  wait_for_inputs();
  const int expert = blockIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const i64 pairs = p.tokens * p.used;
  if (threadIdx.x == 0) before = 0;
  __syncthreads();
  int less = 0;
  for (i64 pair = threadIdx.x; pair < pairs; pair += blockDim.x) {
    const int e = live_expert_of(p, pair);
    less += e >= 0 && e < expert;
    if (expert == 0 && e == STRAY) raise_fault(p.faults);
  }
  atomicAdd(&before, less);
  __syncthreads();
  int at_order = before;
  for (i64 first = 0; first < pairs; first += blockDim.x) {
    const i64 pair = first + threadIdx.x;
    const u32 mine = __ballot_sync(~0u, pair < pairs && live_expert_of(p, pair) == expert);
    if (lane == 0) found[warp] = __popc(mine);
    __syncthreads();
    int offset = at_order;
    for (int w = 0; w < 8; ++w) {
      if (w < warp) offset += found[w];
      at_order += found[w];
    }
    if (mine >> lane & 1) at<int>(p.order)[offset + __popc(mine & ((1u << lane) - 1))] = (int)pair;
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  at<int>(p.start)[expert] = before;
  if (expert == p.experts - 1) at<int>(p.start)[p.experts] = at_order;
}

KERNEL(32) expert_tiles(const __grid_constant__ ExpertParams p) {
  wait_for_inputs();
  const int* start = at<const int>(p.start);
  int before = 0;
  for (int first = 0; first < p.experts; first += 32) {
    const int e = first + threadIdx.x, tiles = e < p.experts ? (start[e + 1] - start[e] + TILE_ROWS - 1) / TILE_ROWS : 0;
    int scan = tiles;
#pragma unroll
    for (int o = 1; o < 32; o <<= 1) {
      const int left = __shfl_up_sync(~0u, scan, o);
      if ((int)threadIdx.x >= o) scan += left;
    }
    if (e < p.experts) at<int>(p.tiles)[e] = before + scan - tiles;
    before += __shfl_sync(~0u, scan, 31);
  }
  if (threadIdx.x == 0) at<int>(p.tiles)[p.experts] = before;
}

/// The expert of a tile, and its first pair and count in the order; false: there is no such tile.
DEV bool pairs_of_tile(const ExpertParams& p, int tile, int& expert, int& first, int& count) {
  const int* tiles = at<const int>(p.tiles);
  if (tile >= tiles[p.experts]) return false;
  int low = 0, high = (int)p.experts - 1;  // the last expert whose tiles start at or before this one
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (tiles[middle] <= tile) low = middle;
    else high = middle - 1;
  }
  expert = low;
  first = at<const int>(p.start)[low] + (tile - tiles[low]) * TILE_ROWS;
  count = min((int)TILE_ROWS, at<const int>(p.start)[low + 1] - first);
  return true;
}

/// y of a tile of an expert's pairs. The grid: tiles of n, tiles of pairs.
KERNEL(256) matmul_id(const __grid_constant__ ExpertParams p) {
  __shared__ ProductTile s;
  wait_for_inputs();
  int expert, first, count;
  if (!pairs_of_tile(p, blockIdx.y, expert, first, count)) return;
  const int* order = at<const int>(p.order) + first;
  const i64 n0 = (i64)blockIdx.x * TILE_ROWS;
  if (threadIdx.x < TILE_ROWS) {
    const i64 n = n0 + threadIdx.x;
    s.a_rows[threadIdx.x] = (int)threadIdx.x < count ? pair_row(p, p.a, order[threadIdx.x]) : nullptr;
    s.b_rows[threadIdx.x] = n < p.n ? at<const char>(p.b.data) + expert * p.b.strides[0] + n * p.b.strides[1] : nullptr;
  }
  float sums[4][4] = {};
  multiply_tiles(sums, s, p.k, [&](i64 k0) {
    fill_floats(s.a, s.a_rows, p.a.dtype, false, k0, p.k, EvenSteps{p.a.step});
    if (p.b_blocks) fill_blocks(s.b, s.b_rows, p.pieces, k0);
    else fill_floats(s.b, s.b_rows, p.b.dtype, p.b.strides[1] < p.b.step, k0, p.k, EvenSteps{p.b.step});
  });
  each_output(sums, [&](int row, int column, float sum) {
    if (row < count && n0 + column < p.n) store_at(p.y, const_cast<char*>(pair_row(p, p.y, order[row])), n0 + column, sum);
  });
}

/// A warp's dot product of row n of an expert's weights with a row of a.
DEV float dot_of(const Operand& b, const Blocks& pieces, bool is_blocks, const Operand& a, const char* x, int expert, i64 n, i64 k) {
  const int lane = threadIdx.x & 31;
  const char* w = at<const char>(b.data) + expert * b.strides[0] + n * b.strides[1];
  float sum = 0.0f;
  if (is_blocks) {
    Blocks row = pieces;
#pragma unroll
    for (int piece = 0; piece < 4; ++piece) row.plane[piece] += (Address)w;
    for (i64 sixteen = lane; sixteen < k / 16; sixteen += 32) {
      float v[16];
      decode16(row, sixteen, v);
#pragma unroll
      for (int i = 0; i < 16; ++i) sum = fmaf(v[i], load_at(a, x, sixteen * 16 + i), sum);
    }
  } else {
    for (i64 i = lane; i < k; i += 32) sum = fmaf(load_at(b, w, i), load_at(a, x, i), sum);
  }
  return warp_sum(sum);
}

/// The same for few pairs: one warp an output, blockIdx.y the pair. Zeros for pairs without an expert.
KERNEL(256) matmul_id_few(const __grid_constant__ ExpertParams p) {
  wait_for_inputs();
  const i64 pair = blockIdx.y, n = (i64)blockIdx.x * 8 + (threadIdx.x >> 5);
  const int expert = expert_of(p, pair);
  if (expert == STRAY && blockIdx.x == 0 && threadIdx.x == 0) raise_fault(p.faults);
  if (n >= p.n) return;
  const float sum = expert < 0 ? 0.0f : dot_of(p.b, p.pieces, p.b_blocks != 0, p.a, pair_row(p, p.a, pair), expert, n, p.k);
  if ((threadIdx.x & 31) == 0) store_at(p.y, const_cast<char*>(pair_row(p, p.y, pair)), n, sum);
}
/// Gate, up and their GLU.
KERNEL(256) matmul_id_glu_few(const __grid_constant__ ExpertEndParams q) {
  wait_for_inputs();
  const ExpertParams& p = q.of;
  const i64 pair = blockIdx.y, n = (i64)blockIdx.x * 8 + (threadIdx.x >> 5);
  const int expert = expert_of(p, pair);
  if (expert == STRAY && blockIdx.x == 0 && threadIdx.x == 0) raise_fault(p.faults);
  if (n >= p.n) return;
  const char* x = pair_row(p, p.a, pair);
  const float gate = expert < 0 ? 0.0f : dot_of(p.b, p.pieces, p.b_blocks != 0, p.a, x, expert, n, p.k);
  const float up = expert < 0 ? 0.0f : dot_of(q.up, q.up_pieces, q.up_blocks != 0, p.a, x, expert, n, p.k);
  if ((threadIdx.x & 31) == 0) store_at(p.y, const_cast<char*>(pair_row(p, p.y, pair)), n, activated(gate, q.activation) * up);
}
/// The weighted sum over a token's experts, perhaps with a residual; blockIdx.y the token.
KERNEL(256) matmul_id_combine_few(const __grid_constant__ ExpertEndParams q) {
  wait_for_inputs();
  const ExpertParams& p = q.of;
  const i64 token = blockIdx.y, n = (i64)blockIdx.x * 8 + (threadIdx.x >> 5);
  const bool told = blockIdx.x == 0 && threadIdx.x == 0;
  float sum = 0.0f;
  for (i64 u = 0; u < p.used; ++u) {
    const i64 pair = token * p.used + u;
    const int expert = expert_of(p, pair);
    if (expert == STRAY && told) raise_fault(p.faults);
    if (n >= p.n) continue;
    const float y = expert < 0 ? 0.0f : dot_of(p.b, p.pieces, p.b_blocks != 0, p.a, pair_row(p, p.a, pair), expert, n, p.k);
    sum = fmaf(*reinterpret_cast<const float*>(at<const char>(q.weight.data) + token * q.weight.strides[0] + u * q.weight.step), y, sum);
  }
  if (n >= p.n || (threadIdx.x & 31) != 0) return;
  if (q.residual) sum += at<const float>(q.residual)[token * p.n + n];
  at<float>(q.y)[token * p.n + n] = sum;
}

/// Zeros for pairs without an expert: in y, or with p.parts in the rows there, or in da.
KERNEL(256) clear_pairs(const __grid_constant__ ExpertParams p) {
  wait_for_inputs();
  const i64 pair = blockIdx.x;
  const bool forward = !p.da.data;
  const int expert = forward ? expert_of(p, pair) : live_expert_of(p, pair);
  if (expert >= 0) return;
  if (forward && expert == STRAY && threadIdx.x == 0) raise_fault(p.faults);
  if (p.parts) {
    for (i64 i = threadIdx.x; i < p.k; i += blockDim.x) at<float>(p.parts)[pair * p.k + i] = 0.0f;
    return;
  }
  const Operand& o = forward ? p.y : p.da;
  char* row = const_cast<char*>(pair_row(p, o, pair));
  for (i64 i = threadIdx.x; i < (forward ? p.n : p.k); i += blockDim.x) store_at(o, row, i, 0.0f);
}

/// dy b of a tile of an expert's pairs, into da or p.parts. The grid: tiles of k, tiles of pairs.
KERNEL(256) matmul_id_da(const __grid_constant__ ExpertParams p) {
  __shared__ ProductTile s;
  wait_for_inputs();
  int expert, first, count;
  if (!pairs_of_tile(p, blockIdx.y, expert, first, count)) return;
  const int* order = at<const int>(p.order) + first;
  const i64 k0 = (i64)blockIdx.x * TILE_ROWS;
  if (threadIdx.x < TILE_ROWS) {
    const i64 k = k0 + threadIdx.x;
    s.a_rows[threadIdx.x] = (int)threadIdx.x < count ? pair_row(p, p.y, order[threadIdx.x]) : nullptr;
    s.b_rows[threadIdx.x] = k < p.k ? at<const char>(p.b.data) + expert * p.b.strides[0] + k * p.b.step : nullptr;
  }
  float sums[4][4] = {};
  multiply_tiles(sums, s, p.n, [&](i64 n) {
    fill_floats(s.a, s.a_rows, p.y.dtype, false, n, p.n, EvenSteps{p.y.step});
    fill_floats(s.b, s.b_rows, p.b.dtype, p.b.step < p.b.strides[1], n, p.n, EvenSteps{p.b.strides[1]});
  });
  each_output(sums, [&](int row, int column, float sum) {
    if (row >= count || k0 + column >= p.k) return;
    if (p.parts) at<float>(p.parts)[order[row] * p.k + k0 + column] = sum;
    else store_at(p.da, const_cast<char*>(pair_row(p, p.da, order[row])), k0 + column, sum);
  });
}

/// da of tokens that have one row of a: the sum over their pairs, in their order.
KERNEL(256) matmul_id_da_sum(const __grid_constant__ ExpertParams p) {
  wait_for_inputs();
  FOR_EACH(i, p.tokens * p.k) {
    const i64 t = i / p.k, k = i % p.k;
    float sum = 0.0f;
    for (i64 u = 0; u < p.used; ++u) sum += at<const float>(p.parts)[(t * p.used + u) * p.k + k];
    store_at(p.da, at<char>(p.da.data) + t * p.da.strides[0], k, sum);
  }
}

/// How far the rows of an expert's pairs lie apart.
struct PairSteps {
  const ExpertParams& p;
  const Operand& o;
  const int* order;
  DEV i64 operator()(i64 i) const { return order[i] / p.used * o.strides[0] + order[i] % p.used * o.strides[1]; }
};

/// db of an expert: the sum over its pairs of dy^T a. The grid: tiles of k, tiles of n, experts.
KERNEL(256) matmul_id_db(const __grid_constant__ ExpertParams p) {
  __shared__ ProductTile s;
  wait_for_inputs();
  if (p.live.count == 1 && !is_live(p.live, 0)) return;
  const int expert = blockIdx.z, first = at<const int>(p.start)[expert], count = at<const int>(p.start)[expert + 1] - first;
  const int* order = at<const int>(p.order) + first;
  const i64 k0 = (i64)blockIdx.x * TILE_ROWS, n0 = (i64)blockIdx.y * TILE_ROWS;
  if (threadIdx.x < TILE_ROWS) {
    const i64 n = n0 + threadIdx.x, k = k0 + threadIdx.x;
    s.a_rows[threadIdx.x] = n < p.n ? at<const char>(p.y.data) + n * p.y.step : nullptr;
    s.b_rows[threadIdx.x] = k < p.k ? at<const char>(p.a.data) + k * p.a.step : nullptr;
  }
  float sums[4][4] = {};
  multiply_tiles(sums, s, count, [&](i64 i) {
    fill_floats(s.a, s.a_rows, p.y.dtype, true, i, count, PairSteps{p, p.y, order});
    fill_floats(s.b, s.b_rows, p.a.dtype, true, i, count, PairSteps{p, p.a, order});
  });
  char* db = at<char>(p.db.data) + expert * p.db.strides[0];
  each_output(sums, [&](int row, int column, float sum) {
    const i64 n = n0 + row, k = k0 + column;
    if (n >= p.n || k >= p.k) return;
    char* to = db + n * p.db.strides[1];
    store_at(p.db, to, k, p.accumulate ? load_at(p.db, to, k) + sum : sum);
  });
}
