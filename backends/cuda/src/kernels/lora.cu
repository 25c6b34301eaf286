// lora_matmul and its gradient: the low-rank products of each row with its adapter, then what they give.
//
//   lora_down_row, lora_down_tile  low = A x. A block computes one rank of a row, or a tile of rows and ranks.
//   lora_up_row, lora_up_tile      y = base + alpha scale B low. A thread computes an output of one row, or of a tile of rows.
//   lora_back                      back = B^T dy, for the gradient. A block computes a row.
//   lora_dx                        dx = alpha scale A^T back.
//   lora_pool                      dA and dB of one adapter. A thread computes eight ranks of a column, rows in their order.
//
// Rows of a tile with one adapter read it once. In other tiles each row has its own turn. A sum has one order, so a row has the same bits in any batch.
#include "lora.hpp"
#include "adapters.cuh"
#include "strided.cuh"

enum { NO_ADAPTER = -1 };

/// The adapter of table row `slot`; false where it does not lie in the pool.
DEV bool read_adapter(const LoraParams& p, i64 slot, Adapter& adapter) {
  return read_adapter(at<const int>(p.table) + slot * 4, p.alpha, p.k, p.n, p.pool_count, adapter);
}
DEV int slot_of(const LoraParams& p, i64 t) { return *reinterpret_cast<const int*>(at<const char>(p.slot.data) + t * p.slot.strides[0]); }
/// The adapter of row t; false: it has none, `stray` where it should have one.
DEV bool adapter_of(const LoraParams& p, i64 t, Adapter& adapter, bool& stray) {
  const int slot = slot_of(p, t);
  stray = slot < NO_ADAPTER || slot >= p.slots;
  if (stray || slot == NO_ADAPTER) return false;
  stray = !read_adapter(p, slot, adapter);
  return !stray;
}
DEV float pool_at(const LoraParams& p, i64 i) { return load_float(at<char>(p.pool), p.pool_dtype, i); }
DEV char* line(const Operand& o, i64 t) { return at<char>(o.data) + t * o.strides[0]; }
DEV int dtype_bytes(int dtype) { return dtype == F32 ? 4 : 2; }

/// Numbers in a line, from `data` on, that are read in groups of eight.
struct Line {
  Operand of;
  Shape walk;
  i64 count;
  /// `wide`: the line and its groups begin at whole words of 16 bytes.
  DEV Line(const char* data, int dtype, i64 step, i64 length, bool wide) : count(length) {
    of.data = reinterpret_cast<Address>(data);
    of.dtype = dtype;
    of.step = step;
    of.strides[0] = step * wide_step;
    walk.rank = 1;
    walk.wide = wide;
  }
  /// Elements 8 g to 8 g + 7, and 0 behind the last.
  DEV void load(i64 g, float (&v)[wide_step]) const {
    if (walk.wide) return load_step(of, walk, g, v);
#pragma unroll
    for (int e = 0; e < wide_step; ++e) v[e] = g * wide_step + e < count ? load_at(of, at<char>(of.data), g * wide_step + e) : 0.0f;
  }
};
DEV Line row_of_x(const LoraParams& p, i64 t) {
  const bool wide = p.x.step == dtype_bytes(p.x.dtype) && (p.x.data | p.x.strides[0]) % 16 == 0 && p.k % wide_step == 0;
  return Line(line(p.x, t), p.x.dtype, p.x.step, p.k, wide);
}
/// `length` numbers of the pool from `first` on.
DEV Line row_of_pool(const LoraParams& p, i64 first, i64 length) {
  const int bytes = dtype_bytes(p.pool_dtype);
  const char* data = at<char>(p.pool) + first * bytes;
  return Line(data, p.pool_dtype, bytes, length, reinterpret_cast<Address>(data) % 16 == 0 && length % wide_step == 0);
}

/// low = A x of up to ROWS rows from t on, and of up to RANKS ranks from r on, of one adapter.
template <int ROWS, int RANKS>
DEV void multiply_down(const LoraParams& p, const Adapter& adapter, i64 t, int rows, i64 r) {
  __shared__ float part[8][ROWS * RANKS];
  const int ranks = (int)min((i64)RANKS, adapter.rank - r);
  float sum[ROWS][RANKS] = {};
  for (i64 g = threadIdx.x; g * wide_step < p.k; g += 256) {
    float a[RANKS][wide_step];
#pragma unroll
    for (int j = 0; j < RANKS; ++j) row_of_pool(p, adapter.a + (r + min(j, ranks - 1)) * p.k, p.k).load(g, a[j]);
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      float x[wide_step];
      row_of_x(p, t + min(i, rows - 1)).load(g, x);
#pragma unroll
      for (int j = 0; j < RANKS; ++j)
#pragma unroll
        for (int e = 0; e < wide_step; ++e) sum[i][j] = fmaf(a[j][e], x[e], sum[i][j]);
    }
  }
  __syncthreads();  // of the tile before
#pragma unroll
  for (int i = 0; i < ROWS; ++i)
#pragma unroll
    for (int j = 0; j < RANKS; ++j) {
      const float of_warp = warp_sum(sum[i][j]);
      if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5][i * RANKS + j] = of_warp;
    }
  __syncthreads();
  const int i = threadIdx.x / RANKS, j = threadIdx.x % RANKS;
  if (i >= rows || j >= ranks) return;
  float whole = 0.0f;
#pragma unroll
  for (int w = 0; w < 8; ++w) whole += part[w][i * RANKS + j];
  at<float>(p.low)[(t + i - p.first_row) * p.most_rank + r + j] = whole;
}

/// The rows from t on, which have one adapter.
template <int ROWS, int RANKS>
DEV void down(const LoraParams& p, i64 t, int rows) {
  Adapter adapter;
  bool stray;
  const bool has = adapter_of(p, t, adapter, stray);
  if (stray && blockIdx.x == 0 && threadIdx.x < rows && is_live(p.live, t + threadIdx.x)) raise_fault(p.faults);
  if (!has) return;
  for (i64 r = (i64)blockIdx.x * RANKS; r < adapter.rank; r += (i64)gridDim.x * RANKS) multiply_down<ROWS, RANKS>(p, adapter, t, rows, r);
}
/// How many rows a tile has from t on.
DEV int rows_from(const LoraParams& p, i64 t, int most) { return (int)min((i64)most, p.end_row - t); }
DEV bool one_slot(const LoraParams& p, i64 t, int rows) {
  bool one = true;
  for (int i = 1; i < rows; ++i) one = one && slot_of(p, t + i) == slot_of(p, t);
  return one;
}

KERNEL(256) lora_down_row(const __grid_constant__ LoraParams p) {
  wait_for_inputs();
  down<1, 1>(p, p.first_row + blockIdx.y, 1);
}
KERNEL(256) lora_down_tile(const __grid_constant__ LoraParams p) {
  wait_for_inputs();
  const i64 t = p.first_row + (i64)blockIdx.y * lora_down_rows;
  const int rows = rows_from(p, t, lora_down_rows);
  if (one_slot(p, t, rows)) return down<lora_down_rows, lora_down_ranks>(p, t, rows);
  for (int i = 0; i < rows; ++i) down<1, lora_down_ranks>(p, t + i, 1);
}

/// Output n of up to ROWS rows from t on, which have one adapter.
template <int ROWS>
DEV void up(const LoraParams& p, i64 t, int rows, i64 n) {
  Adapter adapter;
  bool stray;
  const bool has = adapter_of(p, t, adapter, stray);
  if (!has && !stray && p.base.data) {  // bit for bit
    for (int i = 0; i < rows; ++i) {
      char* y = line(p.y, t + i) + n * p.y.step;
      const char* base = line(p.base, t + i) + n * p.base.step;
      if (p.y.dtype == F32) *reinterpret_cast<u32*>(y) = *reinterpret_cast<const u32*>(base);
      else *reinterpret_cast<u16*>(y) = *reinterpret_cast<const u16*>(base);
    }
    return;
  }
  float v[ROWS] = {};
  if (has) {
    const Line b = row_of_pool(p, adapter.b + n * adapter.rank, adapter.rank);
    for (i64 r = 0; r < adapter.rank; r += wide_step) {
      float weights[wide_step];
      b.load(r / wide_step, weights);
#pragma unroll
      for (int i = 0; i < ROWS; ++i) {
        const float* low = at<const float>(p.low) + (t + min(i, rows - 1) - p.first_row) * p.most_rank + r;
#pragma unroll
        for (int e = 0; e < wide_step; ++e)
          if (r + e < adapter.rank) v[i] = fmaf(weights[e], low[e], v[i]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < ROWS; ++i) {
    if (i >= rows) break;
    if (has) {
      v[i] *= adapter.scale;
      if (p.base.data) v[i] += load_at(p.base, line(p.base, t + i), n);
    }
    store_at(p.y, line(p.y, t + i), n, v[i]);
  }
}

KERNEL(256) lora_up_row(const __grid_constant__ LoraParams p) {
  wait_for_inputs();
  const i64 n = (i64)blockIdx.x * 256 + threadIdx.x;
  if (n < p.n) up<1>(p, p.first_row + blockIdx.y, 1, n);
}
KERNEL(256) lora_up_tile(const __grid_constant__ LoraParams p) {
  wait_for_inputs();
  const i64 n = (i64)blockIdx.x * 256 + threadIdx.x, t = p.first_row + (i64)blockIdx.y * lora_up_rows;
  if (n >= p.n) return;
  const int rows = rows_from(p, t, lora_up_rows);
  if (one_slot(p, t, rows)) return up<lora_up_rows>(p, t, rows, n);
  for (int i = 0; i < rows; ++i) up<1>(p, t + i, 1, n);
}

KERNEL(256) lora_back(const __grid_constant__ LoraParams p) {
  __shared__ float part[8][32];
  wait_for_inputs();
  const i64 t = p.first_row + blockIdx.x;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  Adapter adapter;
  bool stray;
  if (!adapter_of(p, t, adapter, stray)) return;
  const char* dy = line(p.dy, t);
  float* back = at<float>(p.back) + blockIdx.x * p.most_rank;
  for (i64 r0 = 0; r0 < adapter.rank; r0 += 32) {  // a lane a rank: they lie side by side
    float sum = 0.0f;
    if (r0 + lane < adapter.rank)
      for (i64 i = warp; i < p.n; i += 8) sum = fmaf(pool_at(p, adapter.b + i * adapter.rank + r0 + lane), load_at(p.dy, dy, i), sum);
    __syncthreads();
    part[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && r0 + lane < adapter.rank) {
      sum = 0.0f;
      for (int w = 0; w < 8; ++w) sum += part[w][lane];
      back[r0 + lane] = sum;
    }
  }
}

KERNEL(256) lora_dx(const __grid_constant__ LoraParams p) {
  wait_for_inputs();
  const i64 t = p.first_row + blockIdx.y, k = (i64)blockIdx.x * 256 + threadIdx.x;
  if (k >= p.k) return;
  Adapter adapter;
  bool stray;
  float v = 0.0f;
  if (is_live(p.live, t) && adapter_of(p, t, adapter, stray)) {
    const float* back = at<const float>(p.back) + blockIdx.y * p.most_rank;
    for (i64 r = 0; r < adapter.rank; ++r) v = fmaf(pool_at(p, adapter.a + r * p.k + k), back[r], v);
    v *= adapter.scale;
  }
  store_at(p.dx, line(p.dx, t), k, v);
}

KERNEL(256) lora_clear(const __grid_constant__ LoraPoolParams p) {
  wait_for_inputs();
  if (p.lora.live.count == 1 && !is_live(p.lora.live, 0)) return;
  FOR_EACH(i, p.lora.pool_count) store_float(at<char>(p.dpool), p.dpool_dtype, i, 0.0f);
}

enum { RANKS = 8 };
KERNEL(256) lora_pool(const __grid_constant__ LoraPoolParams p) {
  wait_for_inputs();
  const LoraParams& q = p.lora;
  bool used = false;
  for (i64 t = threadIdx.x; t < p.rows; t += blockDim.x)
    used = used || (slot_of(q, q.first_row + t) == p.adapter && is_live(q.live, q.first_row + t));
  Adapter adapter;
  if (!__syncthreads_or(used) || !read_adapter(q, p.adapter, adapter)) return;
  const i64 columns = p.of_b ? q.n : q.k, groups = (adapter.rank + RANKS - 1) / RANKS;
  const Operand& wide = p.of_b ? q.dy : q.x;
  const float* narrow = at<const float>(p.of_b ? q.low : q.back);
  FOR_EACH(e, columns * groups) {
    const i64 column = e % columns, r0 = e / columns * RANKS;
    const int ranks = (int)min((i64)RANKS, adapter.rank - r0);
    float sum[RANKS] = {};
    for (i64 t = 0; t < p.rows; ++t) {
      const i64 row = q.first_row + t;
      if (slot_of(q, row) != p.adapter || !is_live(q.live, row)) continue;
      const float v = load_at(wide, line(wide, row), column);
      const float* weights = narrow + t * q.most_rank + r0;
#pragma unroll
      for (int r = 0; r < RANKS; ++r)
        if (r < ranks) sum[r] = fmaf(weights[r], v, sum[r]);
    }
#pragma unroll
    for (int r = 0; r < RANKS; ++r) {
      if (r >= ranks) break;
      const i64 i = p.of_b ? adapter.b + column * adapter.rank + r0 + r : adapter.a + (r0 + r) * q.k + column;
      const float before = load_float(at<const char>(p.dpool), p.dpool_dtype, i);
      store_float(at<char>(p.dpool), p.dpool_dtype, i, fmaf(adapter.scale, sum[r], before));
    }
  }
}
