// Attention over paged keys and values for what attention.cu does not read: strided operands, caches of two formats, odd heads. And the
// check of what the rows of either kernel need.
//
//   attention_any    a block of four warps a (head, row): a warp a key at a time, its softmax kept as it goes, joined at the end
//   attention_check  a block a row: where the row's sequence or a page that it needs is out of range, its outputs become zeros
#include "alibi.cuh"
#include "cache.cuh"

/// Keys [begin, end) that a row sees by its position; false: none, `stray` if because something is out of range.
DEV bool keys_of(const AttentionAnyParams& p, i64 t, int& begin, int& end, bool& stray) {
  const int position = at<const int>(p.table.position)[t], sequence = at<const int>(p.table.row_slot)[t];
  stray = false;
  if (position == -1) return false;
  const int capacity = p.table.pages_per_sequence * p.table.page;
  stray = position < -1 || sequence < 0 || sequence >= p.table.sequences;
  if (stray) return false;
  end = p.causal ? position + 1 : p.kv_len ? at<const int>(p.kv_len)[sequence] : capacity;
  begin = p.window > 0 ? max(0, position - p.window + 1) : 0;
  stray = end > capacity || (p.mask && end > p.mask_columns);
  return !stray && begin < end;
}

KERNEL(128) attention_check(const __grid_constant__ AttentionAnyParams p) {
  wait_for_inputs();
  const i64 t = blockIdx.x;
  int begin = 0, end = 0;
  bool stray;
  const bool sees = keys_of(p, t, begin, end, stray);
  if (sees)
    for (int page = begin / p.table.page + threadIdx.x; page * p.table.page < end; page += blockDim.x)
      stray = stray || page_of(p.table, p.k.pages, at<const int>(p.table.row_slot)[t], page * p.table.page) < 0;
  if (!__syncthreads_or(stray)) return;
  if (threadIdx.x == 0) raise_fault(p.faults);
  for (int e = threadIdx.x; e < p.heads * p.v.d; e += blockDim.x)
    store_at(p.y, const_cast<char*>(vector_of(p.y, t, e / p.v.d)), e % p.v.d, 0.0f);
}

KERNEL(128) attention_any(const __grid_constant__ AttentionAnyParams p) {
  extern __shared__ __align__(16) float memory[];  // q [d], of each warp an output [dv], then its largest score and its sum
  wait_for_inputs();
  const int head = blockIdx.x, warp = threadIdx.x >> 5, lane = threadIdx.x & 31, d = p.k.d, dv = p.v.d;
  const int kv_head = head / (p.heads / p.k.kv_heads);
  const i64 t = blockIdx.y;
  const int sequence = at<const int>(p.table.row_slot)[t];
  int begin = 0, end = 0;
  bool stray;
  if (!keys_of(p, t, begin, end, stray)) end = begin = 0;
  float *q = memory, *out = memory + d + warp * dv, *most_of_warp = memory + d + 4 * dv, *sum_of_warp = most_of_warp + 4;
  const char* from = vector_of(p.q, t, head);
  for (int i = threadIdx.x; i < d; i += blockDim.x) q[i] = load_at(p.q, from, i);
  for (int i = lane; i < dv; i += 32) out[i] = 0.0f;
  __syncthreads();
  const float slope = alibi_slope(p.max_bias, head, p.heads);
  float most = -INFINITY_F, sum = 0.0f;
  for (int key = begin + warp; key < end; key += 4) {
    const int page = page_of(p.table, p.k.pages, sequence, key), slot = key % p.table.page;
    if (page < 0) continue;  // attention_check sees it too
    float m = 0.0f;
    if (p.mask) {
      const i64 at_mask = t * p.mask_stride + key;
      if (p.mask_dtype == U8) m = at<const u8>(p.mask)[at_mask] != 0 ? 0.0f : -INFINITY_F;
      else m = load_float(at<const char>(p.mask), p.mask_dtype, at_mask);
      if (m == -INFINITY_F) continue;
    }
    const char* k = vector_at(p.k, page, kv_head, slot);
    float dot = 0.0f;
    for (int i = lane; i < d; i += 32) dot = fmaf(q[i], load_element(p.k.dtype, k, i), dot);
    float s = warp_sum(dot) * p.scale;
    if (p.softcap > 0.0f) s = p.softcap * tanhf(s / p.softcap);
    s = fmaf(slope, m, s);
    const float now = fmaxf(most, s), kept = most == -INFINITY_F ? 0.0f : expf(most - now), e = s == -INFINITY_F ? 0.0f : expf(s - now);
    const char* v = vector_at(p.v, page, kv_head, slot);
    for (int i = lane; i < dv; i += 32) out[i] = fmaf(out[i], kept, e == 0.0f ? 0.0f : e * load_element(p.v.dtype, v, i));
    sum = fmaf(sum, kept, e);
    most = now;
  }
  if (lane == 0) {
    most_of_warp[warp] = most;
    sum_of_warp[warp] = sum;
  }
  __syncthreads();
  const float sink = p.sinks ? at<const float>(p.sinks)[head] : -INFINITY_F;
  float top = sink;
  for (int w = 0; w < 4; ++w) top = fmaxf(top, most_of_warp[w]);
  float factor[4], total = sink == -INFINITY_F ? 0.0f : expf(sink - top);
  for (int w = 0; w < 4; ++w) {
    factor[w] = most_of_warp[w] == -INFINITY_F ? 0.0f : expf(most_of_warp[w] - top);
    total = fmaf(factor[w], sum_of_warp[w], total);
  }
  char* y = const_cast<char*>(vector_of(p.y, t, head));
  for (int i = threadIdx.x; i < dv; i += blockDim.x) {
    float v = 0.0f;
    for (int w = 0; w < 4; ++w) v = fmaf(factor[w], memory[d + w * dv + i], v);
    store_at(p.y, y, i, total == 0.0f ? 0.0f : v / total);
  }
}
