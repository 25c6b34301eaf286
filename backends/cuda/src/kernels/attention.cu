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
#include "attention.cuh"

template <int F> DEV void attend(const AttentionParams& p, Shared<HEADS, MAX_D>& s) {
  wait_for_inputs();
  const int groups = (p.heads / p.k.kv_heads + p.group - 1) / p.group;
  const int split = blockIdx.x, kv_head = blockIdx.y / groups, t = blockIdx.z;
  const int per_kv = p.heads / p.k.kv_heads, first_head = kv_head * per_kv + blockIdx.y % groups * p.group;
  const int heads = min(p.group, per_kv - blockIdx.y % groups * p.group);
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, d = p.k.d, dv = p.v.d;
  if (is_left(p, t)) return;
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
    if (p.norms.q) norm_new(p, s.q[0], MAX_D, heads, first_head, kv_head, newest_here ? x : nullptr);
    rotate(p, s.q[0], MAX_D, heads, position);
    if (newest_here) {
      rotate(p, x, MAX_D, 1, position);
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

  finish(p, s, active, split, t, first_head, heads, key_groups);
}

#define ATTENTION(name, F) \
  KERNEL(128) attention_##name(const __grid_constant__ AttentionParams p) { \
    __shared__ Shared<HEADS, MAX_D> s; \
    attend<F>(p, s); \
  }
ATTENTION(f32, F32)
ATTENTION(f16, F16)
ATTENTION(bf16, BF16)
ATTENTION(q8_0, Q8_0)
ATTENTION(q4_0, Q4_0)
