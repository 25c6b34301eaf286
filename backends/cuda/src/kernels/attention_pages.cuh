// Attention of few rows over a cache of 16-bit floats, for cards with bulk copies (9.0 and newer): it runs at the memory's rate.
//
//   grid     as attention.cu: (splits of the keys, kv heads x groups of query heads, rows)
//   keys     each warp takes every fourth tile of 16 keys, with a softmax of its own: warps meet only at the end. Up to ALONE keys are one
//            block's: joining splits costs as much as these; of more each block has SHARE at least
//   heads    up to eight of one kv head, as rows of the matrix units' 16: dot products by FMAs took longer than the keys take to come
//   exact    a query is the sum of two 16-bit numbers (of bf16 three), row h and row h + 8, scaled so that both are normal; weights likewise. So
//            products are those of f32, at no cost: the rows were free
//   memory   keys and values of a tile lie side by side in a page: two bulk copies, STAGES of them under way for each warp, and two blocks
//            a multiprocessor: 128 KB
//   lanes    the sum over a head's elements may have any order, and so may the columns of the result: each lane reads 16 bytes of a key,
//            and of four values the same eight columns, as they lie
#pragma once
#include "attention.cuh"
#include "bulk.cuh"

#if __CUDA_ARCH__ >= 900
enum { ALONE = pages_alone, SHARE = pages_share };

/// How a block of up to G heads of D elements shares its work.
template <int D, int G> struct Shape {
  enum { WARPS = pages_warps, THREADS = WARPS * 32, AT_ONCE = pages_keys, STAGES = pages_stages };  // AT_ONCE: keys of a tile
};

template <int D, int G> struct Pipe {
  u64 full[Shape<D, G>::WARPS][Shape<D, G>::STAGES];
  float most[Shape<D, G>::WARPS][G], sum[Shape<D, G>::WARPS][G];
  u16 own_k[128], own_v[128];  // of the row's own position, where it is new
  int there[Shape<D, G>::WARPS][Shape<D, G>::STAGES];  // whether the tile's page is one
};

/// Two numbers as the sum of two pairs of f16, or of three of bf16: the first, then what is missing. What is not finite is the first alone.
template <int F> DEV void split(float x, float y, u32* parts) {
#pragma unroll
  for (int i = 0; i < (F == F16 ? 2 : 3); ++i) {
    const u32 v = parts[i] = F == F16 ? pack_half(x, y) : pack_bf16(x, y);
    const float a = F == F16 ? from_half((u16)v) : __uint_as_float(v << 16), b = F == F16 ? from_half((u16)(v >> 16)) : __uint_as_float(v & 0xffff0000u);
    x = fabsf(x) < INFINITY_F ? x - a : 0.0f;
    y = fabsf(y) < INFINITY_F ? y - b : 0.0f;
  }
}
/// The A operand of 16 numbers of a row, this thread's (x0, x1) and (x2, x3): their first parts are row h, the second row h + 8, and of bf16 the third
/// row h + 8 of a further product. That one's row h has the least normal number, of the first part's sign: nothing beside that, but times an
/// infinity the same infinity, where a 0 would make a NaN.
template <int F> struct Rows {
  u32 a[4], third[2];
  DEV void set(float x0, float x1, float x2, float x3) {
    u32 low[3], high[3];
    split<F>(x0, x1, low);
    split<F>(x2, x3, high);
    a[0] = low[0], a[1] = low[1], a[2] = high[0], a[3] = high[1];
    if (F == BF16) third[0] = low[2], third[1] = high[2];
  }
  DEV void multiply(float* c, u32 b0, u32 b1) const {
    multiply16<F == F16>(c, a, b0, b1);
    if (F == BF16) {
      const u32 further[4] = {a[0] & 0x80008000u | 0x00800080u, third[0], a[2] & 0x80008000u | 0x00800080u, third[1]};
      multiply16<false>(c, further, b0, b1);
    }
  }
  /// Of the sums of row h and row h + 8. Beside an infinity the second is a NaN, and says nothing.
  static DEV float sum(float first, float second) { return fabsf(first) < INFINITY_F ? first + second : first; }
};
DEV uint4 load_shared16(const char* p) { return *reinterpret_cast<const uint4*>(p); }
DEV u32 word(const uint4& v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

template <int F, int D, int G> DEV void attend(const AttentionParams& p, char* memory) {
  typedef Shape<D, G> By;
  enum { WARPS = By::WARPS, AT_ONCE = By::AT_ONCE, STAGES = By::STAGES, THREADS = By::THREADS, BYTES = AT_ONCE * D * 2 };
  typedef Shared<G, D, WARPS> Own;
  typedef Pipe<D, G> Pipes;
  static_assert((sizeof(Own) + 127) / 128 == (pages_shared_bytes(G, D) + 127) / 128 && (sizeof(Pipes) + 127) / 128 == (pages_pipe_bytes(G) + 127) / 128,
                "the host counts with other bytes");
  Own& s = *reinterpret_cast<Own*>(memory);
  Pipes& pipe = *reinterpret_cast<Pipes*>(memory + (sizeof(Own) + 127) / 128 * 128);
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  char* stages = memory + (sizeof(Own) + 127) / 128 * 128 + (sizeof(Pipes) + 127) / 128 * 128 + warp * STAGES * 2 * BYTES;
  if (lane == 0) {
#pragma unroll
    for (int i = 0; i < STAGES; ++i) barrier_init(&pipe.full[warp][i], 1);
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
  // Of the tile that a warp asks for next: its page's place in the table, and its own in the page. No division in the loop, and no wait
  // for the table.
  int index = (begin + warp * AT_ONCE) / p.k.page, within = begin + warp * AT_ONCE - index * p.k.page, next_page = 0;
  const auto page_at = [&](int i) { return __ldcg(table + min(i, p.k.pages_per_sequence - 1)); };
  const auto ask = [&](int tile, int slot, int page, int first) {  // one lane
    const bool there = page >= 0 && page < p.k.pages;
    pipe.there[warp][slot] = there;
    const u32 bytes = there ? (u32)min((int)AT_ONCE, end - begin - tile * AT_ONCE) * D * 2 : 0;
    barrier_expect(&pipe.full[warp][slot], 2 * bytes);
    if (!there) return;
    const i64 from = ((i64)(page * p.k.kv_heads + kv_head) * p.k.page + first) * D;
    bulk_copy(stages + slot * 2 * BYTES, at<const u16>(p.k.cache) + from, bytes, &pipe.full[warp][slot]);
    bulk_copy(stages + slot * 2 * BYTES + BYTES, at<const u16>(p.v.cache) + from, bytes, &pipe.full[warp][slot]);
  };
  const auto advance = [&] {
    for (within += WARPS * AT_ONCE; within >= p.k.page; ++index) within -= p.k.page;
  };
  const bool newest_here = p.new_k && known && begin < end && newest == end;  // this block's keys end with the row's own
  const int own_index = position / p.k.page, own_page = newest_here && own_index < p.k.pages_per_sequence ? __ldcg(table + own_index) : -1;
  if (lane == 0) {
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
      if (warp + i * WARPS < tiles) ask(warp + i * WARPS, i, pages[i], firsts[i]);
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
  // A lane has head g, or its columns g, and four keys of a tile: 2 t, 2 t + 1 and those 8 on.
  const int g = lane >> 2, t4 = lane & 3;
  Rows<F> q[D / 16];
  float unit;  // of the sums that come from q
  {
    float x[D / 4], largest = 0.0f;
#pragma unroll
    for (int i = 0; i < D / 4; ++i) {
      x[i] = g < heads ? s.q[g][(t4 + i / 8 * 4) * 8 + i % 8] : 0.0f;
      largest = fmaxf(largest, fabsf(x[i]));
    }
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
    // To at least 2^14 and less than 2^15: powers of two, so that nothing is rounded.
    const u32 exponent = F == F16 ? min(254u, max(15u, __float_as_uint(largest) >> 23)) : 141u;
    const float up = __uint_as_float((268u - exponent) << 23);
    unit = __uint_as_float((exponent - 14u) << 23);
#pragma unroll
    for (int i = 0; i < D / 4; i += 4) q[i / 4].set(x[i] * up, x[i + 1] * up, x[i + 2] * up, x[i + 3] * up);
  }
  const float weights_up = F == F16 ? 16384.0f : 1.0f;  // so that both parts of small weights are normal
  float acc[D / 8][4] = {}, most = -INFINITY_F, sum = 0.0f;
  const bool plain = p.softcap == 0.0f && p.max_bias == 0.0f;
  if (plain) unit *= p.scale;
#pragma unroll 1
  for (int tile = warp, n = 0; tile < tiles; tile += WARPS, ++n) {
    const int slot = n % STAGES, key0 = begin + tile * AT_ONCE;
    char *keys = stages + slot * 2 * BYTES, *values = keys + BYTES;
    barrier_wait(&pipe.full[warp][slot], (u32)(n / STAGES) & 1u);
    const bool there = pipe.there[warp][slot] != 0, all = there && key0 >= seen && key0 + AT_ONCE <= end;
    if (newest_here && key0 + AT_ONCE >= end) {  // its own key came from the cache before it was written there
      const int r = end - 1 - key0;
      for (int i = lane; i < D; i += 32) {
        reinterpret_cast<u16*>(keys)[r * D + i] = pipe.own_k[i];
        reinterpret_cast<u16*>(values)[r * D + i] = pipe.own_v[i];
      }
      __syncwarp();
    }
    const auto sees = [&](int r) { return there && key0 + r < end && key0 + r >= seen; };
    if (!all) {  // hidden values may be anything, and nothing times that is not nothing
      for (int i = lane; i < AT_ONCE * D / 8; i += 32)
        if (!sees(i / (D / 8))) *reinterpret_cast<uint4*>(values + i * 16) = make_uint4(0, 0, 0, 0);
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      __syncwarp();
    }
    float w[4];  // of keys 2 t, 2 t + 1, 2 t + 8, 2 t + 9
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      float c[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
      for (int i = 0; i < D / 32; ++i) {
        const uint4 k = load_shared16(keys + (m * 8 + g) * (D * 2) + (t4 + 4 * i) * 16);
        q[2 * i].multiply(c, k.x, k.y);
        q[2 * i + 1].multiply(c, k.z, k.w);
      }
      w[2 * m] = Rows<F>::sum(c[0], c[2]) * unit;
      w[2 * m + 1] = Rows<F>::sum(c[1], c[3]) * unit;
    }
    if (!plain) {
#pragma unroll
      for (int i = 0; i < 4; ++i) w[i] = logit(p, w[i], t, first_head + g, key0 + i / 2 * 8 + 2 * t4 + i % 2, position);
    }
    if (!all) {
#pragma unroll
      for (int i = 0; i < 4; ++i) w[i] = sees(i / 2 * 8 + 2 * t4 + i % 2) ? w[i] : -INFINITY_F;
    }
    float top = fmaxf(most, fmaxf(fmaxf(w[0], w[1]), fmaxf(w[2], w[3])));
    top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
    top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
    const float base = top == -INFINITY_F ? 0.0f : top;  // no key seen yet: all weights are 0
    const float factor = __expf(most - base);
    most = top;
    sum *= factor;
    if (__any_sync(~0u, factor != 1.0f)) {
#pragma unroll
      for (int i = 0; i < D / 8; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) acc[i][j] *= factor;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      w[i] = __expf(w[i] - base);
      sum += w[i];
      w[i] *= weights_up;
    }
    Rows<F> weights;
    weights.set(w[0], w[1], w[2], w[3]);
#pragma unroll
    for (int i = 0; i < D / 64; ++i) {
      const char* v = values + 2 * t4 * (D * 2) + (g + 8 * i) * 16;
      const uint4 v0 = load_shared16(v), v1 = load_shared16(v + D * 2), v8 = load_shared16(v + 8 * (D * 2)), v9 = load_shared16(v + 9 * (D * 2));
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const u32 turn = e & 1 ? 0x7632 : 0x5410;
        weights.multiply(acc[8 * i + e], __byte_perm(word(v0, e / 2), word(v1, e / 2), turn), __byte_perm(word(v8, e / 2), word(v9, e / 2), turn));
      }
    }
    __syncwarp();
    if (tile + STAGES * WARPS >= tiles || lane != 0) continue;  // its stage is not filled again
    ask(tile + STAGES * WARPS, slot, next_page, within);
    advance();
    next_page = page_at(index);
  }
  sum += __shfl_xor_sync(~0u, sum, 1);
  sum += __shfl_xor_sync(~0u, sum, 2);
  if (g < heads) {
    if (t4 == 0) {
      pipe.most[warp][g] = most;
      pipe.sum[warp][g] = sum;
    }
#pragma unroll
    for (int i = 0; i < D / 64; ++i)
#pragma unroll
      for (int j = 0; j < 2; ++j)
#pragma unroll
        for (int e = 0; e < 8; ++e) s.out[warp][g][8 * (2 * t4 + j + 8 * i) + e] = Rows<F>::sum(acc[8 * i + e][j], acc[8 * i + e][j + 2]) * (1.0f / weights_up);
  }
  __syncthreads();
  // The warps' parts in one softmax.
  const bool whole = active == 1 && !p.sinks;  // nothing to join: the result
  for (int i = threadIdx.x; i < heads * D; i += THREADS) {
    const int h = i / D, j = i % D;
    float top = -INFINITY_F, total = 0.0f, v = 0.0f;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) top = fmaxf(top, pipe.most[w][h]);
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
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
#define KERNEL_OF(name, F, D, G) \
  extern "C" __global__ void __launch_bounds__(128, 2) attention_pages_##name##_##G(const __grid_constant__ AttentionParams p) { ATTEND(F, D, G) }
#define KERNELS(name, F, D) \
  KERNEL_OF(name, F, D, 1)  \
  KERNEL_OF(name, F, D, 8)
