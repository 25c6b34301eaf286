// lora_matmul and its gradient: the low-rank products of each row with its adapter, then what they give.
//
//   lora_down  a block a row: low = A x, a warp a rank; of the gradient also back = B^T dy
//   lora_up    y = base + alpha scale B low, a thread an element;  lora_dx  dx = alpha scale A^T back
//   lora_pool  dA and dB of one adapter, a thread eight ranks of a column, rows in their order
#include "lora.hpp"
#include "strided.cuh"

struct Adapter {
  i64 a, b, rank;
  float scale;
};
enum { NO_ADAPTER = -1 };

/// The adapter of table row `slot`; false where it does not lie in the pool.
DEV bool read_adapter(const LoraParams& p, i64 slot, Adapter& adapter) {
  const int* row = at<const int>(p.table) + slot * 4;
  adapter = {row[0], row[1], row[2], p.alpha * __int_as_float(row[3])};
  return adapter.a >= 0 && adapter.b >= 0 && adapter.rank >= 0 && adapter.a + adapter.rank * p.k <= p.pool_count &&
         adapter.b + adapter.rank * p.n <= p.pool_count;
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
DEV float pool_at(const LoraParams& p, i64 i) { return load_float(at<const char>(p.pool), p.pool_dtype, i); }
DEV char* line(const Operand& o, i64 t) { return at<char>(o.data) + t * o.strides[0]; }

KERNEL(256) lora_down(const __grid_constant__ LoraParams p) {
  __shared__ float part[8][32];
  wait_for_inputs();
  const i64 t = p.first_row + blockIdx.x;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  Adapter adapter;
  bool stray;
  const bool has = adapter_of(p, t, adapter, stray);
  if (stray && is_live(p.live, t) && threadIdx.x == 0) raise_fault(p.faults);
  if (!has) return;
  const char* x = line(p.x, t);
  float* low = at<float>(p.low) + blockIdx.x * p.most_rank;
  for (i64 r = warp; r < adapter.rank; r += 8) {
    float sum = 0.0f;
    for (i64 i = lane; i < p.k; i += 32) sum = fmaf(pool_at(p, adapter.a + r * p.k + i), load_at(p.x, x, i), sum);
    sum = warp_sum(sum);
    if (lane == 0) low[r] = sum;
  }
  if (!p.back) return;
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

KERNEL(256) lora_up(const __grid_constant__ LoraParams p) {
  wait_for_inputs();
  const i64 t = p.first_row + blockIdx.y, n = (i64)blockIdx.x * 256 + threadIdx.x;
  if (n >= p.n) return;
  Adapter adapter;
  bool stray;
  const bool has = adapter_of(p, t, adapter, stray);
  char* y = line(p.y, t);
  if (!has && !stray && p.base.data) {  // bit for bit
    const char* base = line(p.base, t);
    if (p.y.dtype == F32) *reinterpret_cast<u32*>(y + n * p.y.step) = *reinterpret_cast<const u32*>(base + n * p.base.step);
    else *reinterpret_cast<u16*>(y + n * p.y.step) = *reinterpret_cast<const u16*>(base + n * p.base.step);
    return;
  }
  float v = 0.0f;
  if (has) {
    const float* low = at<const float>(p.low) + blockIdx.y * p.most_rank;
    for (i64 r = 0; r < adapter.rank; ++r) v = fmaf(pool_at(p, adapter.b + n * adapter.rank + r), low[r], v);
    v *= adapter.scale;
    if (p.base.data) v += load_at(p.base, line(p.base, t), n);
  }
  store_at(p.y, y, n, v);
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
