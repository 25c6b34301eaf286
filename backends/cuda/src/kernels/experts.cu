// matmul_id and its gradient. Pairs of a token and an expert are put in order by expert. Each expert's pairs are then rows of a product.
#include "activation.cuh"
#include "experts.cuh"
#include "tile_product.cuh"

static_assert((int)TILE_PAIRS == (int)TILE_ROWS, "a tile of pairs is one of rows");

/// One block an expert: how many pairs come before its own, then these, in their order. Each warp has a run of pairs.
KERNEL(256) expert_lists(const __grid_constant__ ExpertParams p) {
  __shared__ int found[8], less[8];
  wait_for_inputs();
  const int expert = blockIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const i64 pairs = p.tokens * p.used, run = (pairs + 255) / 256 * 32, end = min((i64)(warp + 1) * run, pairs);
  int own = 0, smaller = 0;
#pragma unroll 4
  for (i64 pair = warp * run + lane; pair < end; pair += 32) {
    const int e = live_expert_of(p, pair);
    own += e == expert;
    smaller += e >= 0 && e < expert;
    if (expert == 0 && e == STRAY) raise_fault(p.faults);
  }
#pragma unroll
  for (int o = 16; o; o >>= 1) {
    own += __shfl_xor_sync(~0u, own, o);
    smaller += __shfl_xor_sync(~0u, smaller, o);
  }
  if (lane == 0) found[warp] = own, less[warp] = smaller;
  __syncthreads();
  int before = 0, all = 0, place = 0;
#pragma unroll
  for (int w = 0; w < 8; ++w) {
    if (w == warp) place = all;
    before += less[w];
    all += found[w];
  }
  if (threadIdx.x == 0) {
    at<int>(p.start)[expert] = before;
    if (expert == p.experts - 1) at<int>(p.start)[p.experts] = before + all;
  }
  place += before;
  if (own == 0) return;
#pragma unroll 4
  for (i64 first = warp * run; first < end; first += 32) {
    const i64 pair = first + lane;
    const u32 mine = __ballot_sync(~0u, pair < end && live_expert_of(p, pair) == expert);
    if (mine >> lane & 1) at<int>(p.order)[place + __popc(mine & ((1u << lane) - 1))] = (int)pair;
    place += __popc(mine);
  }
}

KERNEL(32) expert_tiles(const __grid_constant__ ExpertParams p) {
  wait_for_inputs();
  const int* start = at<const int>(p.start);
  int before = 0;
  for (int first = 0; first < p.experts; first += 32) {
    const int e = first + threadIdx.x, tiles = e < p.experts ? (start[e + 1] - start[e] + p.tile_pairs - 1) / p.tile_pairs : 0;
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
    s.b_rows[threadIdx.x] = n < p.n ? WeightRow(p.b, 0, expert, n, p.n).from : nullptr;
  }
  const WeightRow row(p.b, p.row_sixteens, expert, n0, p.n);
  const Blocks pieces = p.row_sixteens ? row.blocks(p.pieces) : p.pieces;
  float sums[4][4] = {};
  multiply_tiles(sums, s, p.k, [&](i64 k0) {
    fill_floats(s.a, s.a_rows, p.a.dtype, false, k0, p.k, EvenSteps{p.a.step});
    if (p.b_blocks) fill_blocks(s.b, s.b_rows, pieces, k0, p.row_sixteens ? row.before : -1, p.row_sixteens);
    else fill_floats(s.b, s.b_rows, p.b.dtype, p.b.strides[1] < p.b.step, k0, p.k, EvenSteps{p.b.step});
  });
  each_output(sums, [&](int row, int column, float sum) {
    if (row < count && n0 + column < p.n) store_at(p.y, const_cast<char*>(pair_row(p, p.y, order[row])), n0 + column, sum);
  });
}

// Of few pairs each output is a warp's. A block's rows of activations lie in shared memory where they fit. Each 16 elements take 20 floats there:
// eight lanes that read 16 bytes at once then use different banks.
enum { SIXTEEN = expert_sixteen, OUTPUTS = expert_outputs, WARPS = expert_warps };

/// A row of activations: in shared memory, or where it is.
struct Activations16 {
  const Operand& a;
  const char* row;
  const float* staged;  // null: not in shared memory

  DEV void sixteen(i64 s, float* out) const {
    if (!staged) return load_sixteen(a, row, s, out);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float4 v = reinterpret_cast<const float4*>(staged + s * SIXTEEN)[i];
      out[4 * i] = v.x;
      out[4 * i + 1] = v.y;
      out[4 * i + 2] = v.z;
      out[4 * i + 3] = v.w;
    }
  }
  DEV float at(i64 i) const { return staged ? staged[i / 16 * SIXTEEN + i % 16] : load_at(a, row, i); }
};
/// Brings k elements of a row to shared memory; thread `thread` of `threads` that do.
DEV void stage_row(float* to, const Operand& a, const char* row, i64 k, int thread, int threads) {
  for (i64 i = thread; i < k; i += threads) to[i / 16 * SIXTEEN + i % 16] = load_at(a, row, i);
}

/// The weights of an expert. Of blocks a lane reads sixteen elements at once, of floats one.
struct ExpertWeights {
  const Operand& b;
  const Blocks& pieces;
  bool blocks;
  i64 row_sixteens, rows;

  DEV WeightRow row(int expert, i64 n) const { return WeightRow(b, row_sixteens, expert, n, rows); }
};
template <int F, int N> DEV void dot_rows(const ExpertWeights& w, const WeightRow (&rows)[N], const Activations16& x, i64 k, float* sums) {
  typedef Format<F> Weights;
  for (i64 sixteen = threadIdx.x & 31; sixteen < k / 16; sixteen += 32) {
    float u[16], v[N][16];
#pragma unroll
    for (int r = 0; r < N; ++r) {
      const i64 place = rows[r].before + sixteen;
      Weights::decode16(rows[r].blocks(w.pieces), place / Weights::sixteens, (int)(place % Weights::sixteens), v[r]);
    }
    x.sixteen(sixteen, u);
#pragma unroll
    for (int r = 0; r < N; ++r)
#pragma unroll
      for (int i = 0; i < 16; ++i) sums[r] = fmaf(v[r][i], u[i], sums[r]);
  }
}
/// A warp's dot products of N rows of weights with a row of activations.
template <int N> DEV void dot_of(const ExpertWeights& w, const WeightRow (&rows)[N], const Activations16& x, i64 k, float* sums) {
#pragma unroll
  for (int r = 0; r < N; ++r) sums[r] = 0.0f;
  if (!w.blocks) {
    for (i64 i = threadIdx.x & 31; i < k; i += 32)
#pragma unroll
      for (int r = 0; r < N; ++r) sums[r] = fmaf(load_at(w.b, rows[r].from, i), x.at(i), sums[r]);
  } else {
    switch (w.pieces.dtype) {
#define CALL(FORMAT) dot_rows<FORMAT>(w, rows, x, k, sums)
      BLOCK_FORMAT_CASES
#undef CALL
    }
  }
#pragma unroll
  for (int r = 0; r < N; ++r) sums[r] = warp_sum(sums[r]);
}

/// The block's row of activations, that of pair blockIdx.y; `memory` has room for it where p.staged.
DEV Activations16 row_of_block(const ExpertParams& p, i64 pair, bool wanted, float* memory) {
  const char* row = pair_row(p, p.a, pair);
  if (p.staged && wanted) stage_row(memory, p.a, row, p.k, threadIdx.x, blockDim.x);
  __syncthreads();
  return {p.a, row, p.staged ? memory : nullptr};
}
/// Products of few pairs: a warp has OUTPUTS outputs, blockIdx.y is the pair. Zeros for pairs without an expert.
KERNEL(256) matmul_id_few(const __grid_constant__ ExpertParams p) {
  SHARED_MEMORY(float, memory);
  wait_for_inputs();
  const i64 pair = blockIdx.y, first = ((i64)blockIdx.x * WARPS + (threadIdx.x >> 5)) * OUTPUTS;
  const int expert = expert_of(p, pair), lane = threadIdx.x & 31;
  if (expert == STRAY && blockIdx.x == 0 && threadIdx.x == 0) raise_fault(p.faults);
  const Activations16 x = row_of_block(p, pair, expert >= 0, memory);
  if (first >= p.n) return;
  float sums[OUTPUTS] = {};
  if (expert >= 0) {
    const ExpertWeights w{p.b, p.pieces, p.b_blocks != 0, p.row_sixteens, p.n};
    WeightRow rows[OUTPUTS];
#pragma unroll
    for (int o = 0; o < OUTPUTS; ++o) rows[o] = w.row(expert, min(first + o, (i64)p.n - 1));
    dot_of(w, rows, x, p.k, sums);
  }
  char* const y = const_cast<char*>(pair_row(p, p.y, pair));
#pragma unroll
  for (int o = 0; o < OUTPUTS; ++o)
    if (lane == 0 && first + o < p.n) store_at(p.y, y, first + o, sums[o]);
}
/// Gate, up and their GLU.
KERNEL(256) matmul_id_glu_few(const __grid_constant__ ExpertEndParams q) {
  SHARED_MEMORY(float, memory);
  wait_for_inputs();
  const ExpertParams& p = q.of;
  const i64 pair = blockIdx.y, first = ((i64)blockIdx.x * WARPS + (threadIdx.x >> 5)) * OUTPUTS;
  const int expert = expert_of(p, pair), lane = threadIdx.x & 31;
  if (expert == STRAY && blockIdx.x == 0 && threadIdx.x == 0) raise_fault(p.faults);
  const Activations16 x = row_of_block(p, pair, expert >= 0, memory);
  const ExpertWeights gates{p.b, p.pieces, p.b_blocks != 0, p.row_sixteens, p.n}, ups{q.up, q.up_pieces, q.up_blocks != 0, q.up_row_sixteens, p.n};
  const bool alike = gates.blocks && ups.blocks && q.up_pieces.dtype == p.pieces.dtype && q.up_row_sixteens == p.row_sixteens;
  char* const y = const_cast<char*>(pair_row(p, p.y, pair));
  for (i64 n = first; n < min(first + OUTPUTS, (i64)p.n); ++n) {
    float both[2] = {};  // gate and up
    if (expert >= 0 && alike) {
      const WeightRow rows[2] = {gates.row(expert, n), ups.row(expert, n)};
      dot_of(gates, rows, x, p.k, both);
    } else if (expert >= 0) {
#pragma unroll 1
      for (int part = 0; part < 2; ++part) {
        const ExpertWeights& w = part == 0 ? gates : ups;
        const WeightRow row[1] = {w.row(expert, n)};
        float one[1];
        dot_of(w, row, x, p.k, one);
        both[part] = one[0];
      }
    }
    if (lane == 0) store_at(p.y, y, n, activated(both[0], q.activation) * both[1]);
  }
}
/// The weighted sum over a token's experts, perhaps with a residual; blockIdx.y the token. `warps` warps share the experts of OUTPUTS outputs.
KERNEL(256) matmul_id_combine_few(const __grid_constant__ ExpertEndParams q) {
  SHARED_MEMORY(float, memory);
  __shared__ float parts[WARPS][OUTPUTS];
  wait_for_inputs();
  const ExpertParams& p = q.of;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, share = warp % q.warps;
  const i64 token = blockIdx.y, first = ((i64)blockIdx.x * (WARPS / q.warps) + warp / q.warps) * OUTPUTS;
  const bool told = blockIdx.x == 0 && lane == 0;
  float* const staged = p.staged ? memory + share * expert_staged_floats(p.k) : nullptr;  // then each warp has one expert
  if (p.staged && warp < q.warps && share < p.used && expert_of(p, token * p.used + share) >= 0)
    stage_row(staged, p.a, pair_row(p, p.a, token * p.used + share), p.k, lane, 32);
  __syncthreads();
  float sums[OUTPUTS] = {};
  const ExpertWeights w{p.b, p.pieces, p.b_blocks != 0, p.row_sixteens, p.n};
  for (i64 u = share; u < p.used; u += q.warps) {
    const i64 pair = token * p.used + u;
    const int expert = expert_of(p, pair);
    if (expert == STRAY && told) raise_fault(p.faults);
    if (first >= p.n) continue;
    float y[OUTPUTS] = {};
    if (expert >= 0) {
      WeightRow rows[OUTPUTS];
#pragma unroll
      for (int o = 0; o < OUTPUTS; ++o) rows[o] = w.row(expert, min(first + o, (i64)p.n - 1));
      dot_of(w, rows, Activations16{p.a, pair_row(p, p.a, pair), staged}, p.k, y);
    }
    const float weight = *reinterpret_cast<const float*>(at<const char>(q.weight.data) + token * q.weight.strides[0] + u * q.weight.step);
#pragma unroll
    for (int o = 0; o < OUTPUTS; ++o) sums[o] = fmaf(weight, y[o], sums[o]);
  }
  if (lane == 0)
#pragma unroll
    for (int o = 0; o < OUTPUTS; ++o) parts[warp][o] = sums[o];
  __syncthreads();
  const i64 n = first + lane;
  if (share != 0 || lane >= OUTPUTS || n >= p.n) return;
  float sum = parts[warp][lane];
  for (int other = 1; other < q.warps; ++other) sum += parts[warp + other][lane];
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
