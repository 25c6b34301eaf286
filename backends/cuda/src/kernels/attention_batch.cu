// Attention of up to 64 rows, most of them of different sequences, with their rotations and the writes to the cache: one kernel in place of two.
// For cards with bulk copies (9.0 and newer).
//
//   grid     (kv heads x groups of G query heads, rows): enough blocks to fill the card, so keys are not split
//   warps    each takes every so many-th tile of 8 or 16 keys, by bulk copies with STAGES under way, with a softmax of its own; they meet at
//            the end
//   early    what does not come from the step's products is asked for before the wait for the kernel before
//   new keys those of the step's own rows are made here from the product, not read from the cache: another block may be writing them
//   lanes    d / 8 lanes share a key, each 8 elements of it
#include "attention_batch.hpp"
#include "bulk.cuh"
#include "kv.cuh"
#include "operand.cuh"

#if __CUDA_ARCH__ >= 900
enum { STAGES = batch_stages, MOST_WARPS = batch_most_warps, MOST_ROWS = batch_most_rows };

/// Elements e to e + 7 of a head's vector in f32, with a bias, and those that they rotate with.
struct Raw {
  float own[8], other[8];
};
DEV void load_eight(const float* x, const float* bias, int e, float* to) {
#pragma unroll
  for (int i = 0; i < 8; i += 4) {
    const float4 v = *reinterpret_cast<const float4*>(x + e + i);
    to[i] = v.x, to[i + 1] = v.y, to[i + 2] = v.z, to[i + 3] = v.w;
  }
  if (bias)
#pragma unroll
    for (int i = 0; i < 8; ++i) to[i] += bias[e + i];
}
/// The norm of a head of D elements, that D / 8 neighbouring lanes have: all of these come here together.
template <int D> DEV void norm_raw(const HeadNorms& norms, bool of_key, int e, int e_other, Raw& v) {
  enum { LANES = D / 8 };
  const u32 lanes = ((1u << LANES) - 1) << ((threadIdx.x & 31) & ~(LANES - 1));
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i) sum = fmaf(v.own[i], v.own[i], sum);
#pragma unroll
  for (int o = LANES / 2; o; o >>= 1) sum += __shfl_xor_sync(lanes, sum, o);
  const float factor = 1.0f / sqrtf(sum / (float)D + (of_key ? norms.epsilon_k : norms.epsilon_q)), offset = of_key ? norms.offset_k : norms.offset_q;
  const float* weight = at<const float>(of_key ? norms.k : norms.q);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    v.own[i] *= factor * (weight[e + i] + offset);
    v.other[i] *= factor * (weight[e_other + i] + offset);
  }
}
template <int D> DEV Raw load_raw(const AttentionBatchParams& p, const float* x, const float* bias, int e, bool of_key) {
  const int pairs = (int)p.rope_pairs;
  const bool halves = p.rope_mode != 0 && e < 2 * pairs;
  const int other = !halves ? e : e < pairs ? e + pairs : e - pairs;  // pairs are whole eights
  Raw v = {};
  load_eight(x, bias, e, v.own);
  if (halves) load_eight(x, bias, other, v.other);
  if (p.norms.q) norm_raw<D>(p.norms, of_key, e, other, v);
  return v;
}
/// The rotation to a position of elements e to e + 7: eight numbers of cosine and sine, four of both in mode 0.
struct Turn {
  float4 of[4];
};
DEV Turn turn_of(const AttentionBatchParams& p, int position, int e) {
  const int pairs = (int)p.rope_pairs;
  Turn turn = {};
  if (position < 0 || position >= p.rope_positions || e >= 2 * pairs) return turn;
  const float4* from = reinterpret_cast<const float4*>(at<const float2>(p.rope) + (i64)position * pairs + (p.rope_mode == 0 ? e / 2 : e < pairs ? e : e - pairs));
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (i < 2 || p.rope_mode != 0) turn.of[i] = from[i];
  return turn;
}
DEV void turn_eight(const AttentionBatchParams& p, const Raw& v, const Turn& turn, int e, float* to) {
  const int pairs = (int)p.rope_pairs;
  const bool behind = e >= 2 * pairs;
#pragma unroll
  for (int i = 0; i < 8; ++i) to[i] = v.own[i];
  if (behind) return;
  if (p.rope_mode == 0) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float4 f = turn.of[i / 2];
      const float c = i & 1 ? f.z : f.x, s = i & 1 ? f.w : f.y, a = v.own[2 * i], b = v.own[2 * i + 1];
      to[2 * i] = a * c - b * s;
      to[2 * i + 1] = a * s + b * c;
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float4 f = turn.of[i / 2];
    const float c = i & 1 ? f.z : f.x, s = i & 1 ? f.w : f.y;
    to[i] = e < pairs ? v.own[i] * c - v.other[i] * s : v.other[i] * s + v.own[i] * c;
  }
}
template <int F> DEV uint4 packed_eight(const float* v) {
  return make_uint4(pack16(v[0], v[1], F == F16), pack16(v[2], v[3], F == F16), pack16(v[4], v[5], F == F16), pack16(v[6], v[7], F == F16));
}
template <int F> DEV void unpacked_eight(const uint4& v, float* to) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const u32 w = i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
    to[2 * i] = F == F16 ? from_half((u16)w) : __uint_as_float(w << 16);
    to[2 * i + 1] = F == F16 ? from_half((u16)(w >> 16)) : __uint_as_float(w & 0xffff0000u);
  }
}
DEV uint4 load_shared16(const char* p) { return *reinterpret_cast<const uint4*>(p); }
__device__ __noinline__ float soft_capped(float v, float cap) { return cap * tanhf(v / cap); }

template <int F, int D, int G> DEV void attend(const AttentionBatchParams& p, char* memory) {
  enum { LANES = D / 8, STEP = 32 / LANES, AT_ONCE = batch_keys(D), TURNS = AT_ONCE / STEP, BYTES = AT_ONCE * D * 2 };
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, warps = blockDim.x >> 5;
  // In shared memory: barriers [warps][STAGES], queries [G][D], results [warps][G][D], their most and sum [warps][G], stages.
  u64* full = reinterpret_cast<u64*>(memory) + warp * STAGES;
  float* queries = reinterpret_cast<float*>(memory + MOST_WARPS * STAGES * 8);
  float *results = queries + G * D, *mosts = results + warps * G * D, *sums = mosts + MOST_WARPS * G;
  char* stages = reinterpret_cast<char*>(sums + MOST_WARPS * G) + warp * STAGES * 2 * BYTES;
  if (lane == 0) {
    for (int i = 0; i < STAGES; ++i) barrier_init(&full[i], 1);
    fence_barriers();
  }
  __syncwarp();
  start_next();
  if (!p.early) wait_previous();
  const int per_kv = p.heads / p.k.kv_heads, groups = (per_kv + G - 1) / G, kv_head = blockIdx.x / groups, group = blockIdx.x % groups, t = blockIdx.y;
  const int first_head = kv_head * per_kv + group * G, heads = min((int)G, per_kv - group * G);
  const int e = lane % LANES * 8, of = lane / LANES;  // this lane's elements, and its key of those at once
  int positions[MOST_ROWS / 32], slots[MOST_ROWS / 32];
#pragma unroll
  for (int i = 0; i < MOST_ROWS / 32; ++i) {
    const int r = i * 32 + lane;
    positions[i] = r < p.rows ? __ldcg(at<const int>(p.k.position) + r) : -1;
    slots[i] = r < p.rows ? __ldcg(at<const int>(p.k.row_slot) + r) : -1;
  }
  const int position = __shfl_sync(~0u, t < 32 ? positions[0] : positions[1], t & 31), sequence = __shfl_sync(~0u, t < 32 ? slots[0] : slots[1], t & 31);
  const bool known = position >= 0 && sequence >= 0 && sequence < p.k.sequences;
  const Turn turn = turn_of(p, known ? position : -1, e);
  const int end = known ? min(position + 1, p.k.pages_per_sequence * p.k.page) : 0, seen = known && p.window > 0 ? max(0, position - p.window + 1) : 0;
  const int* table = at<const int>(p.k.block_table) + (i64)(known ? sequence : 0) * p.k.pages_per_sequence;
  const int own_page = known && position < end ? __ldcg(table + position / p.k.page) : -1;
  // Rows of the step whose keys this one sees.
  u64 rows = 0;
  int least = 0x7fffffff;
#pragma unroll
  for (int i = 0; i < MOST_ROWS / 32; ++i) {
    const bool mine = known && slots[i] == sequence && positions[i] >= seen && positions[i] < end;
    rows |= (u64)__ballot_sync(~0u, mine) << i * 32;
    if (mine) least = min(least, positions[i]);
  }
  const int count = __popcll(rows);
#pragma unroll
  for (int o = 16; o; o >>= 1) least = min(least, __shfl_xor_sync(~0u, least, o));
  const bool gaps = count > 0 && count != position - least + 1;  // older keys lie between the step's own
  const auto is_new = [&](int key) {
    for (int r = 0; r < p.rows; ++r)
      if (rows >> r & 1 && at<const int>(p.k.position)[r] == key) return true;
    return false;
  };
  const int cached = count == 0 || gaps ? end : min(end, least), begin = seen / AT_ONCE * AT_ONCE;
  const int tiles = cached > begin ? (cached - begin + AT_ONCE - 1) / AT_ONCE : 0;
  // Of the tile that this warp asks for next: its page's place in the table, and its own in the page. No division in the loop, and no wait for
  // the table: a page is looked up a tile before it is asked for.
  int index = (begin + warp * AT_ONCE) / p.k.page, within = begin + warp * AT_ONCE - index * p.k.page;
  const auto page_at = [&](int i) { return __ldcg(table + min(i, p.k.pages_per_sequence - 1)); };
  const auto is_page = [&](int page) { return page >= 0 && page < p.k.pages; };
  const auto advance = [&] {
    for (within += warps * AT_ONCE; within >= p.k.page; ++index) within -= p.k.page;
  };
  const auto ask = [&](int tile, int slot, int page, int first) {  // one lane
    if (!is_page(page)) {
      barrier_expect(&full[slot], 0);
      return;
    }
    const i64 from = (((i64)page * p.k.kv_heads + kv_head) * p.k.page + first) * D;
    const u32 bytes = (u32)min((int)AT_ONCE, cached - begin - tile * AT_ONCE) * D * 2;
    barrier_expect(&full[slot], 2 * bytes);
    bulk_copy(stages + slot * 2 * BYTES, at<const u16>(p.k.cache) + from, bytes, &full[slot]);
    bulk_copy(stages + slot * 2 * BYTES + BYTES, at<const u16>(p.v.cache) + from, bytes, &full[slot]);
  };
  int pages[STAGES], firsts[STAGES];  // of the tiles at hand
#pragma unroll
  for (int i = 0; i < STAGES; ++i) {
    pages[i] = page_at(index);
    firsts[i] = within;
    advance();
  }
  int next_page = page_at(index);
  if (lane == 0)
#pragma unroll
    for (int i = 0; i < STAGES; ++i)
      if (warp + i * warps < tiles) ask(warp + i * warps, i, pages[i], firsts[i]);
  const bool own_there = is_page(own_page);
  if (threadIdx.x == 0 && position != -1 && (!known || !own_there || position >= p.rope_positions)) raise_fault(p.faults);

  // A thread's eight elements of queries, and the row's own key and value.
  if (p.early) wait_previous();
  const int turned_head = threadIdx.x / LANES;
  Raw q_raw, k_raw;
  float own_value[8];
  const i64 kv_element = (i64)kv_head * D, q_element = (i64)(first_head + turned_head) * D;
  if (turned_head < heads) q_raw = load_raw<D>(p, at<const float>(p.q) + t * p.row + q_element, p.bias_q ? at<const float>(p.bias_q) + q_element : nullptr, e, false);
  const bool has_own = warp == warps - 1;
  if (has_own) {
    k_raw = load_raw<D>(p, at<const float>(p.keys) + t * p.row + kv_element, p.bias_k ? at<const float>(p.bias_k) + kv_element : nullptr, e, true);
    load_eight(at<const float>(p.values) + t * p.row + kv_element, p.bias_v ? at<const float>(p.bias_v) + kv_element : nullptr, e, own_value);
  }
  if (turned_head < heads) {
    float v[8];
    turn_eight(p, q_raw, turn, e, v);
    unpacked_eight<F>(packed_eight<F>(v), v);  // as where rotations are a kernel of their own
#pragma unroll
    for (int i = 0; i < 8; ++i) queries[turned_head * D + e + i] = v[i];
  }
  __syncthreads();
  float q[G][8], acc[G][8] = {}, most[G], sum[G] = {};
#pragma unroll
  for (int h = 0; h < G; ++h) {
    most[h] = -INFINITY_F;
#pragma unroll
    for (int i = 0; i < 8; ++i) q[h][i] = h < heads ? queries[h * D + e + i] : 0.0f;
  }
  const auto logit = [&](int h, const float* k) {  // before the cap
    float dot = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; ++i) dot = fmaf(k[i], q[h][i], dot);
#pragma unroll
    for (int o = LANES / 2; o; o >>= 1) dot += __shfl_xor_sync(~0u, dot, o);
    return dot * p.scale;
  };
  /// Takes a head's new largest logit: what there is counts that much less.
  const auto raise = [&](int h, float top) {
    const float factor = most[h] == -INFINITY_F ? 0.0f : __expf(most[h] - top);
    most[h] = top;
    sum[h] *= factor;
#pragma unroll
    for (int i = 0; i < 8; ++i) acc[h][i] *= factor;
  };
#pragma unroll 1
  for (int tile = warp, slot = 0, phase = 0; tile < tiles; tile += warps) {
    const int key0 = begin + tile * AT_ONCE;
    const bool there = is_page(pages[0]), all = there && key0 >= seen && key0 + AT_ONCE <= cached && !gaps;
    const char *keys = stages + slot * 2 * BYTES, *values = keys + BYTES;
    barrier_wait(&full[slot], (u32)phase);
    float w[TURNS][G];
#pragma unroll
    for (int i = 0; i < TURNS; ++i) {
      float k[8];
      unpacked_eight<F>(load_shared16(keys + ((i * STEP + of) * D + e) * 2), k);
#pragma unroll
      for (int h = 0; h < G; ++h) w[i][h] = logit(h, k);
    }
    if (p.softcap > 0.0f)
#pragma unroll
      for (int i = 0; i < TURNS; ++i)
#pragma unroll
        for (int h = 0; h < G; ++h) w[i][h] = soft_capped(w[i][h], p.softcap);
    u32 sees = ~0u;
    if (!all) {
      sees = 0;
#pragma unroll
      for (int i = 0; i < TURNS; ++i) {
        const int key = key0 + i * STEP + of;
        const bool this_one = there && key < cached && key >= seen && !(gaps && key >= least && is_new(key));
        sees |= (u32)this_one << i;
#pragma unroll
        for (int h = 0; h < G; ++h) w[i][h] = this_one ? w[i][h] : -INFINITY_F;
      }
    }
#pragma unroll
    for (int h = 0; h < G; ++h) {
      float top = most[h];
#pragma unroll
      for (int i = 0; i < TURNS; ++i) top = fmaxf(top, w[i][h]);
#pragma unroll
      for (int o = 16; o >= LANES; o >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, o));
      raise(h, top);
#pragma unroll
      for (int i = 0; i < TURNS; ++i) {
        w[i][h] = w[i][h] == -INFINITY_F ? 0.0f : __expf(w[i][h] - top);
        sum[h] += w[i][h];
      }
    }
#pragma unroll
    for (int i = 0; i < TURNS; ++i) {
      float v[8];
      unpacked_eight<F>(load_shared16(values + ((i * STEP + of) * D + e) * 2), v);
      if (!all)  // hidden keys may hold anything
#pragma unroll
        for (int j = 0; j < 8; ++j) v[j] = sees >> i & 1 ? v[j] : 0.0f;
#pragma unroll
      for (int h = 0; h < G; ++h)
#pragma unroll
        for (int j = 0; j < 8; ++j) acc[h][j] = fmaf(w[i][h], v[j], acc[h][j]);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i + 1 < STAGES; ++i) pages[i] = pages[i + 1];
    pages[STAGES - 1] = next_page;
    if (tile + STAGES * warps < tiles) {
      if (lane == 0) ask(tile + STAGES * warps, slot, next_page, within);
      advance();
      next_page = page_at(index);
    }
    slot = slot + 1 == STAGES ? 0 : slot + 1;
    if (slot == 0) phase ^= 1;
  }
  const auto take = [&](const uint4& packed_k, const uint4& packed_v) {  // one key, of the first lanes
    float k[8], v[8];
    unpacked_eight<F>(packed_k, k);
    unpacked_eight<F>(packed_v, v);
#pragma unroll
    for (int h = 0; h < G; ++h) {
      float l = logit(h, k);
      if (p.softcap > 0.0f) l = soft_capped(l, p.softcap);
      const float top = fmaxf(most[h], l);
      raise(h, top);
      const float w = of == 0 ? __expf(l - top) : 0.0f;
      sum[h] += w;
#pragma unroll
      for (int j = 0; j < 8; ++j) acc[h][j] = fmaf(w, of == 0 ? v[j] : 0.0f, acc[h][j]);
    }
  };
  if (has_own && own_there) {
    float k[8];
    turn_eight(p, k_raw, turn, e, k);
    const uint4 packed_k = packed_eight<F>(k), packed_v = packed_eight<F>(own_value);
    if (group == 0 && of == 0) {
      const i64 to = (((i64)own_page * p.k.kv_heads + kv_head) * p.k.page + position % p.k.page) * D + e;
      *reinterpret_cast<uint4*>(at<u16>(p.k.cache) + to) = packed_k;
      *reinterpret_cast<uint4*>(at<u16>(p.v.cache) + to) = packed_v;
    }
    take(packed_k, packed_v);
  }
  // Keys of other rows of the step, one at a time: most often there is none.
  rows &= ~(1ull << t);
  for (int n = 0; rows != 0; ++n, rows &= rows - 1) {
    if (n % warps != warp) continue;
    const int r = __ffsll((i64)rows) - 1;
    const int its_position = __shfl_sync(~0u, r < 32 ? positions[0] : positions[1], r & 31);
    if (page_slot(p.k, r, 0) < 0) continue;
    float k[8], v[8];
    turn_eight(p, load_raw<D>(p, at<const float>(p.keys) + r * p.row + kv_element, p.bias_k ? at<const float>(p.bias_k) + kv_element : nullptr, e, true),
               turn_of(p, its_position, e), e, k);
    load_eight(at<const float>(p.values) + r * p.row + kv_element, p.bias_v ? at<const float>(p.bias_v) + kv_element : nullptr, e, v);
    take(packed_eight<F>(k), packed_eight<F>(v));
  }
#pragma unroll
  for (int h = 0; h < G; ++h) {
#pragma unroll
    for (int o = 16; o >= LANES; o >>= 1) {
      sum[h] += __shfl_xor_sync(~0u, sum[h], o);
#pragma unroll
      for (int j = 0; j < 8; ++j) acc[h][j] += __shfl_xor_sync(~0u, acc[h][j], o);
    }
    if (lane < LANES) {
#pragma unroll
      for (int j = 0; j < 8; ++j) results[(warp * G + h) * D + e + j] = acc[h][j];
    }
    if (lane == 0) {
      mosts[warp * G + h] = most[h];
      sums[warp * G + h] = sum[h];
    }
  }
  __syncthreads();
  const i64 size = (i64)p.heads * D;
  for (int i = threadIdx.x; i < heads * D; i += blockDim.x) {  // whole warps
    const int h = i / D, j = i % D;
    float top = -INFINITY_F, total = 0.0f, v = 0.0f;
    for (int w = 0; w < warps; ++w) top = fmaxf(top, mosts[w * G + h]);
    for (int w = 0; w < warps; ++w) {
      const float f = mosts[w * G + h] == -INFINITY_F ? 0.0f : __expf(mosts[w * G + h] - top);
      total = fmaf(f, sums[w * G + h], total);
      v = fmaf(f, results[(w * G + h) * D + j], v);
    }
    v *= total > 0.0f ? 1.0f / total : total == 0.0f ? 0.0f : total;  // a NaN stays one
    const i64 element = (i64)first_head * D + i;
    if (p.y_columns) store_operand(at<char>(p.y) + operand_row(t, p.y_columns, size / 256), p.y_columns, element, v, p.y_dtype == F16, p.y_places);
    else store_float(at<char>(p.y), p.y_dtype, t * size + element, v);
  }
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
  extern "C" __global__ void __launch_bounds__(G == 1 ? 256 : 128, 2) attention_batch_##name##_##D##_##G(const __grid_constant__ AttentionBatchParams p) { ATTEND(F, D, G) }
KERNEL_OF(f16, F16, 64, 1)
KERNEL_OF(f16, F16, 64, 4)
KERNEL_OF(f16, F16, 128, 1)
KERNEL_OF(f16, F16, 128, 4)
KERNEL_OF(bf16, BF16, 64, 1)
KERNEL_OF(bf16, BF16, 64, 4)
KERNEL_OF(bf16, BF16, 128, 1)
KERNEL_OF(bf16, BF16, 128, 4)
