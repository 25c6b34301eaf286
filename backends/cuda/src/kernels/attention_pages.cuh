// Attention of few rows over a cache of 16-bit floats, for cards with bulk copies (9.0 and newer): it runs at the memory's rate.
//
//   grid     as attention.cu: (splits of the keys, kv heads x groups of query heads, rows)
//   keys     a team of warps, one for every head or two, takes every fourth or eighth tile of 16 or 8 keys, each with a softmax of its own:
//            teams meet only at the end. Up to ALONE keys are one block's: joining splits costs as much as these;
//            of more each block has SHARE at least
//   heads    few a warp, since a step's cost on short sequences is that of fetching unrolled code: eight heads a warp took 12 us at 190
//            keys (H100)
//   memory   keys and values of a tile lie side by side in a page: two bulk copies, STAGES of them under way for each team. Where a block has
//            one head that is one: two such blocks a multiprocessor have 64 KB under way, and more only takes memory and barriers
//   lanes    d / 8 lanes share a key, each 8 elements of it
#pragma once
#include "attention.cuh"
#include "bulk.cuh"

#if __CUDA_ARCH__ >= 900
enum { ALONE = 256, SHARE = 128 };

/// How a block of G heads of D elements shares its work. As in ops/attention.cpp.
template <int D, int G> struct Shape {
  enum {
    A_WARP = G == 8 ? 2 : 1,  // heads
    HEAD_WARPS = G / A_WARP,
    TEAMS = G == 1 ? 8 : 4,
    THREADS = HEAD_WARPS * TEAMS * 32,
    AT_ONCE = G == 1 && D == 128 ? 8 : 16,  // keys of a tile
    STAGES = G == 1 ? 1 : 3
  };
};

template <int D, int G> struct Pipe {
  u64 full[Shape<D, G>::TEAMS][Shape<D, G>::STAGES], empty[Shape<D, G>::TEAMS][Shape<D, G>::STAGES];
  float most[Shape<D, G>::TEAMS][G], sum[Shape<D, G>::TEAMS][G];
  u16 own_k[128], own_v[128];  // of the row's own position, where it is new
  int there[Shape<D, G>::TEAMS][Shape<D, G>::STAGES];  // whether the tile's page is one
};

template <int F> DEV void eight(const char* from, float* to) {
  const uint4 v = *reinterpret_cast<const uint4*>(from);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const u32 w = i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
    to[2 * i] = F == F16 ? from_half((u16)w) : __uint_as_float(w << 16);
    to[2 * i + 1] = F == F16 ? from_half((u16)(w >> 16)) : __uint_as_float(w & 0xffff0000u);
  }
}

template <int F, int D, int G> DEV void attend(const AttentionParams& p, char* memory) {
  typedef Shape<D, G> By;
  enum { A_WARP = By::A_WARP, HEAD_WARPS = By::HEAD_WARPS, TEAMS = By::TEAMS, AT_ONCE = By::AT_ONCE, STAGES = By::STAGES, THREADS = By::THREADS };
  enum { LANES = D / 8, STEP = 32 / LANES, TURNS = AT_ONCE / STEP, BYTES = AT_ONCE * D * 2 };
  typedef Shared<G, D, TEAMS> Own;
  typedef Pipe<D, G> Pipes;
  Own& s = *reinterpret_cast<Own*>(memory);
  Pipes& pipe = *reinterpret_cast<Pipes*>(memory + (sizeof(Own) + 127) / 128 * 128);
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, team = warp / HEAD_WARPS, own_head = warp % HEAD_WARPS * A_WARP;
  char* stages = memory + (sizeof(Own) + 127) / 128 * 128 + (sizeof(Pipes) + 127) / 128 * 128 + team * STAGES * 2 * BYTES;
  const bool asks = lane == 0 && warp % HEAD_WARPS == 0;
  if (asks) {
#pragma unroll
    for (int i = 0; i < STAGES; ++i) {
      barrier_init(&pipe.full[team][i], 1);
      if (HEAD_WARPS > 1) barrier_init(&pipe.empty[team][i], HEAD_WARPS * WARP_ARRIVALS);
    }
    fence_barriers();
  }
  __syncthreads();
  // Where keys lie, and all but the row's own, were there before the kernel that makes the queries: they need not wait for it.
  if (p.early) start_next();
  else wait_for_inputs();
  const int groups = (p.heads / p.k.kv_heads + p.group - 1) / p.group, per_kv = p.heads / p.k.kv_heads;
  const int split = blockIdx.x, kv_head = blockIdx.y / groups, t = blockIdx.z;
  const int first_head = kv_head * per_kv + blockIdx.y % groups * p.group, heads = min(p.group, per_kv - blockIdx.y % groups * p.group);
  if (is_left(p, t)) return;
  const int position = __ldcg(at<const int>(p.k.position) + t), sequence = __ldcg(at<const int>(p.k.row_slot) + t);
  const bool known = position >= 0 && sequence >= 0 && sequence < p.k.sequences;
  if (position != -1 && !known && threadIdx.x == 0) raise_fault(p.faults);
  int end = 0;
  if (known) {
    end = p.causal ? position + 1 : p.kv_len ? at<const int>(p.kv_len)[sequence] : p.k.pages_per_sequence * p.k.page;
    end = min(end, p.k.pages_per_sequence * p.k.page);
  }
  const int seen = known && p.window > 0 ? max(0, position - p.window + 1) : 0, newest = end;
  int begin = seen / AT_ONCE * AT_ONCE, active = 1;
  if (p.splits > 1) {
    const int share = max(end - begin <= ALONE ? (int)ALONE : (int)SHARE, ((end - begin + p.splits - 1) / p.splits + 63) / 64 * 64);
    active = end > begin ? (end - begin + share - 1) / share : 1;
    if (split >= active) {
      if (p.early) wait_previous();
      return;
    }
    begin = begin + split * share;
    end = min(end, begin + share);
  }
  const int* table = at<const int>(p.k.block_table) + (i64)(known ? sequence : 0) * p.k.pages_per_sequence;
  const int tiles = end > begin ? (end - begin + AT_ONCE - 1) / AT_ONCE : 0;
  // Of the tile that a team asks for next: its page's place in the table, and its own in the page. No division in the loop, and no wait
  // for the table.
  int index = (begin + team * AT_ONCE) / p.k.page, within = begin + team * AT_ONCE - index * p.k.page, next_page = 0;
  const auto page_at = [&](int i) { return __ldcg(table + min(i, p.k.pages_per_sequence - 1)); };
  const auto ask = [&](int tile, int slot, int page, int first) {  // one lane
    const bool there = page >= 0 && page < p.k.pages;
    pipe.there[team][slot] = there;
    const u32 bytes = there ? (u32)min((int)AT_ONCE, end - begin - tile * AT_ONCE) * D * 2 : 0;
    barrier_expect(&pipe.full[team][slot], 2 * bytes);
    if (!there) return;
    const i64 from = ((i64)(page * p.k.kv_heads + kv_head) * p.k.page + first) * D;
    bulk_copy(stages + slot * 2 * BYTES, at<const u16>(p.k.cache) + from, bytes, &pipe.full[team][slot]);
    bulk_copy(stages + slot * 2 * BYTES + BYTES, at<const u16>(p.v.cache) + from, bytes, &pipe.full[team][slot]);
  };
  const auto advance = [&] {
    for (within += TEAMS * AT_ONCE; within >= p.k.page; ++index) within -= p.k.page;
  };
  const bool newest_here = p.new_k && known && begin < end && newest == end;  // this block's keys end with the row's own
  const int own_index = position / p.k.page, own_page = newest_here && own_index < p.k.pages_per_sequence ? __ldcg(table + own_index) : -1;
  if (asks) {
    int pages[STAGES], firsts[STAGES];
#pragma unroll
    for (int i = 0; i < STAGES; ++i) {
      pages[i] = page_at(index);
      firsts[i] = within;
      advance();
    }
    next_page = page_at(index);
#pragma unroll
    for (int i = 0; i < STAGES; ++i)
      if (team + i * TEAMS < tiles) ask(team + i * TEAMS, i, pages[i], firsts[i]);
  }

  // Pairs of the heads' queries, then of the new key.
  const int pairs = (int)p.rope_pairs;
  const bool turns = p.new_k && 2 * pairs == D;
  enum { PASSES = ((G + 1) * D / 2 + THREADS - 1) / THREADS };
  float2 own[PASSES];
  float own_value = 0.0f;
  float2 turn[PASSES];
  const bool inside = position >= 0 && position < p.rope_positions;
#pragma unroll
  for (int n = 0; n < PASSES; ++n)
    turn[n] = turns && inside ? at<const float2>(p.rope)[(i64)position * pairs + (n * THREADS + threadIdx.x) % (D / 2)] : make_float2(0.0f, 0.0f);
  // The row's own place in the cache.
  const bool placed = own_page >= 0 && own_page < p.k.pages;
  if (newest_here && !placed && threadIdx.x == 0) raise_fault(p.faults);
  const i64 to = ((i64)(own_page * p.k.kv_heads + kv_head) * p.k.page + position - own_index * p.k.page) * D;
  if (p.early) wait_previous();
  if (turns) {
#pragma unroll
    for (int n = 0; n < PASSES; ++n) {
      const int e = n * THREADS + threadIdx.x, vector = e / (D / 2), i = e % (D / 2);
      const int first = p.rope_mode == 0 ? 2 * i : i, second = p.rope_mode == 0 ? 2 * i + 1 : i + D / 2;
      const float* x = vector < heads ? at<const float>(p.q) + ((i64)t * p.heads + first_head + vector) * D
                                      : at<const float>(p.new_k) + (i64)kv_head * D;
      own[n] = vector <= heads ? make_float2(x[first], x[second]) : make_float2(0.0f, 0.0f);
    }
    if (threadIdx.x < D) own_value = at<const float>(p.new_v)[(i64)kv_head * D + threadIdx.x];
    if (!inside && threadIdx.x == 0) raise_fault(p.faults);
    if (p.norms.q) {  // a vector's pairs are those of D / 64 whole warps
      float* squares = s.score[0];  // of each warp and pass
      const float2 whole = row_factors(p);
#pragma unroll
      for (int n = 0; n < PASSES; ++n) {
        const float sum = warp_sum(fmaf(own[n].x, own[n].x, own[n].y * own[n].y));
        if (lane == 0) squares[n * (THREADS / 32) + warp] = sum;
      }
      __syncthreads();
#pragma unroll
      for (int n = 0; n < PASSES; ++n) {
        const int e = n * THREADS + threadIdx.x, vector = e / (D / 2), i = e % (D / 2), at_square = e / 32 & ~(D / 64 - 1);
        const int first = p.rope_mode == 0 ? 2 * i : i, second = p.rope_mode == 0 ? 2 * i + 1 : i + D / 2;
        const bool of_key = vector >= heads;
        const float* weight = at<const float>(of_key ? p.norms.k : p.norms.q);
        if (p.norms.rows) weight += (of_key ? kv_head : min(first_head + vector, p.heads - 1)) * D;
        const float offset = of_key ? p.norms.offset_k : p.norms.offset_q;
        float sum = 0.0f;
#pragma unroll
        for (int w = 0; w < D / 64; ++w) sum += squares[at_square + w];
        const float own_factor = 1.0f / sqrtf(sum / (float)D + (of_key ? p.norms.epsilon_k : p.norms.epsilon_q));
        const float factor = !p.norms.rows ? own_factor : of_key ? whole.y : whole.x;
        own[n].x *= factor * (weight[first] + offset);
        own[n].y *= factor * (weight[second] + offset);
      }
    }
#pragma unroll
    for (int n = 0; n < PASSES; ++n) {
      const int e = n * THREADS + threadIdx.x, vector = e / (D / 2), i = e % (D / 2);
      const int first = p.rope_mode == 0 ? 2 * i : i, second = p.rope_mode == 0 ? 2 * i + 1 : i + D / 2;
      const float a = own[n].x * turn[n].x - own[n].y * turn[n].y, b = own[n].x * turn[n].y + own[n].y * turn[n].x;
      if (vector < heads) {
        s.q[vector][first] = a;
        s.q[vector][second] = b;
      } else if (vector == heads && newest_here) {
        pipe.own_k[first] = F == F16 ? to_half(a) : to_bf16(a);
        pipe.own_k[second] = F == F16 ? to_half(b) : to_bf16(b);
        if (placed) {
          at<u16>(p.k.cache)[to + first] = pipe.own_k[first];
          at<u16>(p.k.cache)[to + second] = pipe.own_k[second];
        }
      }
    }
    if (newest_here && threadIdx.x < D) {
      pipe.own_v[threadIdx.x] = F == F16 ? to_half(own_value) : to_bf16(own_value);
      if (placed) at<u16>(p.v.cache)[to + threadIdx.x] = pipe.own_v[threadIdx.x];
    }
    __syncthreads();
  } else {
    float* x = s.out[0][0];
    for (int e = threadIdx.x; e < heads * D; e += blockDim.x)
      s.q[e / D][e % D] = load_float(at<const char>(p.q), p.q_dtype, ((i64)t * p.heads + first_head) * D + e);
    if (newest_here)
      for (int i = threadIdx.x; i < D; i += blockDim.x) x[i] = at<const float>(p.new_k)[(i64)kv_head * D + i];
    __syncthreads();
    if (p.new_k) {  // less than the whole head turns
      if (p.norms.q) norm_new(p, s.q[0], D, heads, first_head, kv_head, newest_here ? x : nullptr);
      rotate(p, s.q[0], D, heads, position);
      if (newest_here) {
        rotate(p, x, D, 1, position);
        __syncthreads();
        for (int i = threadIdx.x; i < D; i += blockDim.x) {
          const float v = at<const float>(p.new_v)[(i64)kv_head * D + i];
          pipe.own_k[i] = F == F16 ? to_half(x[i]) : to_bf16(x[i]);
          pipe.own_v[i] = F == F16 ? to_half(v) : to_bf16(v);
          if (!placed) continue;
          at<u16>(p.k.cache)[to + i] = pipe.own_k[i];
          at<u16>(p.v.cache)[to + i] = pipe.own_v[i];
        }
      }
      __syncthreads();
    }
  }
  const int e = lane % LANES * 8, of = lane / LANES;  // this lane's elements, and its key of those at once
  float q[A_WARP][8];
#pragma unroll
  for (int h = 0; h < A_WARP; ++h)
#pragma unroll
    for (int i = 0; i < 8; ++i) q[h][i] = own_head + h < heads ? s.q[own_head + h][e + i] : 0.0f;

  float acc[A_WARP][8] = {}, most[A_WARP], sum[A_WARP] = {};
#pragma unroll
  for (int h = 0; h < A_WARP; ++h) most[h] = -INFINITY_F;
  const bool plain = p.softcap == 0.0f && p.max_bias == 0.0f;
  const float scale = plain ? p.scale : 1.0f;
#pragma unroll 1
  for (int tile = team, n = 0; tile < tiles; tile += TEAMS, ++n) {
    const int slot = n % STAGES, key0 = begin + tile * AT_ONCE;
    char *keys = stages + slot * 2 * BYTES, *values = keys + BYTES;
    barrier_wait(&pipe.full[team][slot], (u32)(n / STAGES) & 1u);
    const bool there = pipe.there[team][slot] != 0, all = there && key0 >= seen && key0 + AT_ONCE <= end;
    if (newest_here && key0 + AT_ONCE >= end) {  // its own key came from the cache before it was written there; all of a team write the same
      const int r = end - 1 - key0;
      for (int i = lane; i < D; i += 32) {
        reinterpret_cast<u16*>(keys)[r * D + i] = pipe.own_k[i];
        reinterpret_cast<u16*>(values)[r * D + i] = pipe.own_v[i];
      }
      __syncwarp();
    }
    float w[TURNS][A_WARP];
#pragma unroll
    for (int i = 0; i < TURNS; ++i) {
      float k[8];
      eight<F>(keys + ((i * STEP + of) * D + e) * 2, k);
#pragma unroll
      for (int h = 0; h < A_WARP; ++h) {
        float dot = 0.0f;
#pragma unroll
        for (int j = 0; j < 8; ++j) dot = fmaf(k[j], q[h][j], dot);
#pragma unroll
        for (int o = LANES / 2; o; o >>= 1) dot += __shfl_xor_sync(~0u, dot, o);
        w[i][h] = dot * scale;
      }
    }
    if (!plain) {
#pragma unroll 1
      for (int n_of = 0; n_of < TURNS * A_WARP; ++n_of) {
        float v = 0.0f;
#pragma unroll
        for (int j = 0; j < TURNS * A_WARP; ++j) v = j == n_of ? w[j / A_WARP][j % A_WARP] : v;
        v = logit(p, v, t, first_head + own_head + n_of % A_WARP, key0 + n_of / A_WARP * STEP + of, position);
#pragma unroll
        for (int j = 0; j < TURNS * A_WARP; ++j) w[j / A_WARP][j % A_WARP] = j == n_of ? v : w[j / A_WARP][j % A_WARP];
      }
    }
    if (!all) {
#pragma unroll
      for (int i = 0; i < TURNS; ++i) {
        const int key = key0 + i * STEP + of;
        const bool sees = there && key < end && key >= seen;
#pragma unroll
        for (int h = 0; h < A_WARP; ++h) w[i][h] = sees ? w[i][h] : -INFINITY_F;
      }
    }
    float factor[A_WARP];
#pragma unroll
    for (int h = 0; h < A_WARP; ++h) {
      float top = most[h];
#pragma unroll
      for (int i = 0; i < TURNS; ++i) top = fmaxf(top, w[i][h]);
#pragma unroll
      for (int o = 16; o >= LANES; o >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, o));
      const float base = top == -INFINITY_F ? 0.0f : top;  // no key seen yet: all weights are 0
      factor[h] = __expf(most[h] - base);
      most[h] = top;
      sum[h] *= factor[h];
#pragma unroll
      for (int i = 0; i < TURNS; ++i) {
        w[i][h] = __expf(w[i][h] - base);
        sum[h] += w[i][h];
      }
#pragma unroll
      for (int j = 0; j < 8; ++j) acc[h][j] *= factor[h];
    }
#pragma unroll
    for (int i = 0; i < TURNS; ++i) {
      const int key = key0 + i * STEP + of;
      float v[8];
      eight<F>(values + ((i * STEP + of) * D + e) * 2, v);
      if (!all) {  // hidden keys may hold anything
        const bool sees = there && key < end && key >= seen;
#pragma unroll
        for (int j = 0; j < 8; ++j) v[j] = sees ? v[j] : 0.0f;
      }
#pragma unroll
      for (int h = 0; h < A_WARP; ++h)
#pragma unroll
        for (int j = 0; j < 8; ++j) acc[h][j] = fmaf(w[i][h], v[j], acc[h][j]);
    }
    __syncwarp();
    if (tile + STAGES * TEAMS >= tiles) continue;  // its stage is not filled again
    if (HEAD_WARPS > 1) warp_arrive(&pipe.empty[team][slot], lane);
    if (!asks) continue;
    if (HEAD_WARPS > 1) barrier_wait(&pipe.empty[team][slot], (u32)(n / STAGES) & 1u);
    ask(tile + STAGES * TEAMS, slot, next_page, within);
    advance();
    next_page = page_at(index);
  }
#pragma unroll
  for (int h = 0; h < A_WARP; ++h) {
#pragma unroll
    for (int o = 16; o >= LANES; o >>= 1) {
      sum[h] += __shfl_xor_sync(~0u, sum[h], o);
#pragma unroll
      for (int j = 0; j < 8; ++j) acc[h][j] += __shfl_xor_sync(~0u, acc[h][j], o);
    }
    if (own_head + h < heads && lane < LANES) {
#pragma unroll
      for (int j = 0; j < 8; ++j) s.out[team][own_head + h][e + j] = acc[h][j];
      if (lane == 0) {
        pipe.most[team][own_head + h] = most[h];
        pipe.sum[team][own_head + h] = sum[h];
      }
    }
  }
  __syncthreads();
  // The teams' parts in one softmax.
  const bool whole = active == 1 && !p.sinks;  // nothing to join: the result
  for (int i = threadIdx.x; i < heads * D; i += THREADS) {
    const int h = i / D, j = i % D;
    float top = -INFINITY_F, total = 0.0f, v = 0.0f;
#pragma unroll
    for (int w = 0; w < TEAMS; ++w) top = fmaxf(top, pipe.most[w][h]);
#pragma unroll
    for (int w = 0; w < TEAMS; ++w) {
      const float f = pipe.most[w][h] == -INFINITY_F ? 0.0f : expf(pipe.most[w][h] - top);
      total = fmaf(f, pipe.sum[w][h], total);
      v = fmaf(f, s.out[w][h][j], v);
    }
    if (!whole) {
      s.out[0][h][j] = v;  // each element is read and written by one thread
      if (j == 0) {
        s.most[h] = top;
        s.sum[h] = total;
      }
      continue;
    }
    v *= total > 0.0f ? 1.0f / total : total == 0.0f ? 0.0f : total;  // a NaN stays one
    const i64 to = ((i64)t * p.heads + first_head) * D + i;
    store_result(p, t, first_head * D + i, v, true);
    if (p.out.codes) quantise32(v, p.out, to / 32, lane);
  }
  if (whole) return;
  __syncthreads();
  finish(p, s, active, split, t, first_head, heads, 1);
}
#endif

#if __CUDA_ARCH__ >= 900
#define ATTEND(F, D, G) \
  extern __shared__ __align__(128) char memory[]; \
  attend<F, D, G>(p, memory);
#else
#define ATTEND(F, D, G)
#endif
#define KERNEL_OF(name, F, D, G, threads, blocks) \
  extern "C" __global__ void __launch_bounds__(threads, blocks) attention_pages_##name##_##G(const __grid_constant__ AttentionParams p) { ATTEND(F, D, G) }
#define KERNELS(name, F, D)         \
  KERNEL_OF(name, F, D, 1, 256, 2)  \
  KERNEL_OF(name, F, D, 4, 512, 1)  \
  KERNEL_OF(name, F, D, 8, 512, 1)
