// Softmax attention over paged keys and values, any length, memory linear in it.
//
//   grid     (splits of the keys, kv heads x groups of query heads, rows)
//   block    128 threads, up to 8 query heads of one kv head; keys in tiles of 64
//   scores   a warp takes four keys at a time, each lane two neighbouring elements of 64: coalesced reads of 128 bytes and more
//   values   a thread owns two elements of the output for each head; groups of threads share the keys of a tile
//   splits   the last block of a row and head that finishes combines the parts; counters are left as zeros
//
// With new_k the kernel serves one row whose keys and values are not in the cache yet: the block whose keys hold the row's
// position rotates and writes them first, and every block rotates its queries.
#include "kv.cuh"
#include "quantise.cuh"

enum { TILE = 64, HEADS = 8, MAX_D = 256 };

struct Shared {
  float q[HEADS][MAX_D];
  float score[HEADS][TILE];
  float most[HEADS], sum[HEADS], scale[HEADS];
  float out[4][HEADS][MAX_D];
  int last;
};

/// Rotates `count` vectors of d elements, MAX_D apart, in place; all threads of the block.
DEV void rotate(const AttentionParams& p, float* vectors, int count, int position) {
  if (position < 0 || position >= p.rope_positions) {
    if (threadIdx.x == 0) raise_fault(p.faults);
    for (int h = 0; h < count; ++h)
      for (int i = threadIdx.x; i < p.k.d; i += blockDim.x) vectors[h * MAX_D + i] = 0.0f;
  } else {
    const int pairs = (int)p.rope_pairs;
#pragma unroll 4
    for (int e = threadIdx.x; e < count * pairs; e += blockDim.x) {
      const int i = e % pairs;
      float* x = vectors + e / pairs * MAX_D;
      const int first = p.rope_mode == 0 ? 2 * i : i, second = p.rope_mode == 0 ? 2 * i + 1 : i + pairs;
      const float2 turn = at<const float2>(p.rope)[(i64)position * pairs + i];
      const float a = x[first], b = x[second];
      x[first] = a * turn.x - b * turn.y;
      x[second] = a * turn.y + b * turn.x;
    }
  }
}

/// What the softmax sees of a dot product; -inf stays: its page is not there.
__device__ __noinline__ float logit(const AttentionParams& p, float dot, int t, int head, int key, int position) {
  if (dot == -INFINITY_F) return dot;
  float v = dot * p.scale;
  if (p.softcap > 0.0f) v = p.softcap * tanhf(v / p.softcap);
  if (p.max_bias > 0.0f) {
    const int n = 1 << (31 - __clz(p.heads));
    const float slope = head < n ? exp2f(-p.max_bias * (head + 1) / n) : exp2f(-p.max_bias * 0.5f * (2 * (head - n) + 1) / n);
    v = fmaf(slope, (float)(key - position), v);
  }
  if (p.mask) {
    const i64 m = (i64)t * p.mask_stride + key;
    if (p.mask_dtype == U8) v = at<const u8>(p.mask)[m] ? v : -INFINITY_F;
    else v += load_float(at<const char>(p.mask), p.mask_dtype, m);
  }
  return v;
}

template <int F> DEV void attend(const AttentionParams& p, Shared& s) {
  wait_for_inputs();
  const int groups = (p.heads / p.k.kv_heads + p.group - 1) / p.group;
  const int split = blockIdx.x, kv_head = blockIdx.y / groups, t = blockIdx.z;
  const int per_kv = p.heads / p.k.kv_heads, first_head = kv_head * per_kv + blockIdx.y % groups * p.group;
  const int heads = min(p.group, per_kv - blockIdx.y % groups * p.group);
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, d = p.k.d, dv = p.v.d;
  const int position = at<const int>(p.k.position)[t], sequence = at<const int>(p.k.row_slot)[t];
  const bool known = position >= 0 && sequence >= 0 && sequence < p.k.sequences;
  if (position != -1 && !known && threadIdx.x == 0) raise_fault(p.faults);
  int end = 0;
  if (known) {
    end = p.causal ? position + 1 : p.kv_len ? at<const int>(p.kv_len)[sequence] : p.k.pages_per_sequence * p.k.page;
    end = min(end, p.k.pages_per_sequence * p.k.page);
  }
  int begin = known && p.window > 0 ? max(0, position - p.window + 1) : 0;
  const int newest = end;
  int active = 1;  // splits that have keys
  if (p.splits > 1) {
    const int share = ((end - begin + p.splits - 1) / p.splits + 15) / 16 * 16;
    active = end > begin ? (end - begin + share - 1) / share : 1;
    if (split >= active) return;
    begin = begin + split * share;
    end = min(end, begin + share);
  }
  const int* table = at<const int>(p.k.block_table) + (i64)(known ? sequence : 0) * p.k.pages_per_sequence;

  const bool newest_here = p.new_k && known && begin < end && newest == end;  // this block's keys end with the row's own
  float* x = s.out[0][0];
#pragma unroll 4
  for (int e = threadIdx.x; e < heads * d; e += blockDim.x)
    s.q[e / d][e % d] = load_float(at<const char>(p.q), p.q_dtype, ((i64)t * p.heads + first_head) * d + e);
  if (newest_here)
    for (int i = threadIdx.x; i < d; i += blockDim.x) x[i] = at<const float>(p.new_k)[(i64)kv_head * d + i];
  __syncthreads();
  if (p.new_k) {
    rotate(p, s.q[0], heads, position);
    if (newest_here) {
      rotate(p, x, 1, position);
      __syncthreads();
      const i64 slot = page_slot(p.k, t, p.faults);
      if (slot >= 0) {
        const i64 to_k = cache_element(p.k, slot, kv_head), to_v = cache_element(p.v, slot, kv_head);
        if (F == Q8_0 || F == Q4_0) {
          for (int g = warp; g < d / 32; g += 4) encode32(x[g * 32 + lane], p.k, to_k / 32 + g);
          for (int g = warp; g < dv / 32; g += 4) encode32(at<const float>(p.new_v)[(i64)kv_head * dv + g * 32 + lane], p.v, to_v / 32 + g);
        } else {
          for (int i = threadIdx.x; i < d; i += blockDim.x) store_float(at<char>(p.k.cache), F, to_k + i, x[i]);
          for (int i = threadIdx.x; i < dv; i += blockDim.x)
            store_float(at<char>(p.v.cache), F, to_v + i, at<const float>(p.new_v)[(i64)kv_head * dv + i]);
        }
      }
      __threadfence_block();
    }
    __syncthreads();
  }

  const int pairs_v = dv / 2, key_groups = max(1, min(4, (int)blockDim.x / pairs_v)),
            pair = threadIdx.x % pairs_v, key_group = threadIdx.x / pairs_v;
  float2 acc[HEADS];
#pragma unroll
  for (int h = 0; h < HEADS; ++h) acc[h] = make_float2(0.0f, 0.0f);
  if (threadIdx.x < HEADS) {
    s.most[threadIdx.x] = -INFINITY_F;
    s.sum[threadIdx.x] = 0.0f;
  }
  for (int tile = begin; tile < end; tile += TILE) {
    const int keys = min((int)TILE, end - tile);
    __syncthreads();
    // Four keys of a warp at a time: their loads are under way together.
    for (int j0 = warp; j0 < keys; j0 += 16) {
      i64 base[4];
      bool there[4];
#pragma unroll
      for (int u = 0; u < 4; ++u) {
        const int key = tile + min(j0 + 4 * u, keys - 1), page = table[key / p.k.page];
        there[u] = page >= 0 && page < p.k.pages;
        base[u] = (((i64)(there[u] ? page : 0) * p.k.kv_heads + kv_head) * p.k.page + key % p.k.page) * d;
      }
      float dot[4][HEADS];
#pragma unroll
      for (int u = 0; u < 4; ++u)
#pragma unroll
        for (int h = 0; h < HEADS; ++h) dot[u][h] = 0.0f;
      for (int i = 2 * lane; i < d; i += 64) {
        float2 k[4];
#pragma unroll
        for (int u = 0; u < 4; ++u) k[u] = load_pair<F>(p.k, base[u], i);
#pragma unroll
        for (int h = 0; h < HEADS; ++h)
          if (h < heads) {
            const float2 q = *reinterpret_cast<const float2*>(&s.q[h][i]);
#pragma unroll
            for (int u = 0; u < 4; ++u) dot[u][h] = fmaf(k[u].y, q.y, fmaf(k[u].x, q.x, dot[u][h]));
          }
      }
#pragma unroll
      for (int h = 0; h < HEADS; ++h) {
        if (h >= heads) break;
#pragma unroll
        for (int u = 0; u < 4; ++u) {
          const float v = warp_sum(dot[u][h]);
          if (lane == 0 && j0 + 4 * u < keys) s.score[h][j0 + 4 * u] = there[u] ? v : -INFINITY_F;
        }
      }
    }
    __syncthreads();
    for (int h = warp; h < heads; h += 4) {
      const float a = lane < keys ? logit(p, s.score[h][lane], t, first_head + h, tile + lane, position) : -INFINITY_F;
      const float b = lane + 32 < keys ? logit(p, s.score[h][lane + 32], t, first_head + h, tile + lane + 32, position) : -INFINITY_F;
      const float before = s.most[h], most = fmaxf(before, warp_max(fmaxf(a, b)));
      const float ea = a == -INFINITY_F ? 0.0f : expf(a - most), eb = b == -INFINITY_F ? 0.0f : expf(b - most);
      if (lane < keys) s.score[h][lane] = ea;
      if (lane + 32 < keys) s.score[h][lane + 32] = eb;
      const float sum = warp_sum(ea + eb);
      __syncwarp();
      if (lane == 0) {
        const float scale = before == -INFINITY_F ? 0.0f : expf(before - most);
        s.scale[h] = scale;
        s.sum[h] = s.sum[h] * scale + sum;
        s.most[h] = most;
      }
    }
    __syncthreads();
    if (key_group < key_groups) {
#pragma unroll
      for (int h = 0; h < HEADS; ++h)
        if (h < heads) {
          acc[h].x *= s.scale[h];
          acc[h].y *= s.scale[h];
        }
      for (int j0 = key_group; j0 < keys; j0 += 4 * key_groups) {
        float2 v[4];
#pragma unroll
        for (int u = 0; u < 4; ++u) {
          const int key = tile + min(j0 + u * key_groups, keys - 1), page = table[key / p.k.page];
          const i64 slot = page >= 0 && page < p.v.pages ? page : 0;  // of a page that is not there the score is 0
          v[u] = load_pair<F>(p.v, ((slot * p.v.kv_heads + kv_head) * p.v.page + key % p.v.page) * dv, 2 * pair);
        }
#pragma unroll
        for (int u = 0; u < 4; ++u) {
          const int j = j0 + u * key_groups;
          if (j >= keys) break;
#pragma unroll
          for (int h = 0; h < HEADS; ++h)
            if (h < heads) {
              const float e = s.score[h][j];
              if (e == 0.0f) continue;  // hidden keys may hold anything
              acc[h].x = fmaf(e, v[u].x, acc[h].x);
              acc[h].y = fmaf(e, v[u].y, acc[h].y);
            }
        }
      }
    }
  }
  __syncthreads();
  if (key_group < key_groups)
    for (int h = 0; h < heads; ++h) {
      s.out[key_group][h][2 * pair] = acc[h].x;
      s.out[key_group][h][2 * pair + 1] = acc[h].y;
    }
  __syncthreads();

  if (active > 1) {
    float* parts = at<float>(p.partial) + (((i64)t * p.heads + first_head) * p.splits + split) * (dv + 2);
    for (int e = threadIdx.x; e < heads * dv; e += blockDim.x) {
      const int h = e / dv, i = e % dv;
      float v = 0.0f;
      for (int g = 0; g < key_groups; ++g) v += s.out[g][h][i];
      parts[(i64)h * p.splits * (dv + 2) + i] = v;
    }
    if (threadIdx.x < heads) {
      parts[(i64)threadIdx.x * p.splits * (dv + 2) + dv] = s.most[threadIdx.x];
      parts[(i64)threadIdx.x * p.splits * (dv + 2) + dv + 1] = s.sum[threadIdx.x];
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
      u32* counter = at<u32>(p.counters) + (i64)t * p.heads + first_head;
      s.last = atomicAdd(counter, 1u) == (u32)active - 1;
      if (s.last) *counter = 0;
    }
    __syncthreads();
    if (!s.last) return;
    __threadfence();
  }
  // A warp finds what each split of a head counts for; score[h] holds these factors, at most TILE of them.
  for (int h = warp; h < heads; h += 4) {
    const float* parts = at<const float>(p.partial) + ((i64)t * p.heads + first_head + h) * p.splits * (dv + 2) + dv;
    const float sink = p.sinks ? at<const float>(p.sinks)[first_head + h] : -INFINITY_F;
    float most[2], sum[2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int k = lane + 32 * j;
      most[j] = active == 1 ? (k == 0 ? s.most[h] : -INFINITY_F) : k < active ? __ldcg(parts + k * (dv + 2)) : -INFINITY_F;
      sum[j] = active == 1 ? (k == 0 ? s.sum[h] : 0.0f) : k < active ? __ldcg(parts + k * (dv + 2) + 1) : 0.0f;
    }
    const float top = fmaxf(sink, warp_max(fmaxf(most[0], most[1])));
    float factor[2], total = 0.0f;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      factor[j] = most[j] == -INFINITY_F ? 0.0f : expf(most[j] - top);
      total = fmaf(sum[j], factor[j], total);
    }
    total = warp_sum(total) + (sink == -INFINITY_F ? 0.0f : expf(sink - top));
    const float inverse = total > 0.0f ? 1.0f / total : total == 0.0f ? 0.0f : total;  // a NaN stays one
    s.score[h][lane] = factor[0] * inverse;
    s.score[h][lane + 32] = factor[1] * inverse;
  }
  __syncthreads();
  // Elements of all heads side by side; where they are quantised, dv is a multiple of 32 and a warp has one group.
  for (int e = threadIdx.x; e < (heads * dv + 31) / 32 * 32; e += blockDim.x) {
    const int h = min(e / dv, heads - 1), i = e - h * dv;
    float v = 0.0f;
    if (e < heads * dv) {
      if (active > 1) {
        const float* parts = at<const float>(p.partial) + ((i64)t * p.heads + first_head + h) * p.splits * (dv + 2) + i;
#pragma unroll 8
        for (int k = 0; k < active; ++k) {
          const float f = s.score[h][k];
          v = fmaf(f, f == 0.0f ? 0.0f : __ldcg(parts + k * (dv + 2)), v);
        }
      } else {
        for (int g = 0; g < key_groups; ++g) v += s.out[g][h][i];
        v *= s.score[h][0];
      }
    }
    const i64 to = ((i64)t * p.heads + first_head) * dv + e;
    if (e < heads * dv && p.y) store_float(at<char>(p.y), p.y_dtype, to, v);
    if (p.out.codes) quantise32(v, p.out, to / 32, lane);
  }
}

#define ATTENTION(name, F) \
  KERNEL(128) attention_##name(const __grid_constant__ AttentionParams p) { \
    __shared__ Shared s; \
    attend<F>(p, s); \
  }
ATTENTION(f32, F32)
ATTENTION(f16, F16)
ATTENTION(bf16, BF16)
ATTENTION(q8_0, Q8_0)
ATTENTION(q4_0, Q4_0)
