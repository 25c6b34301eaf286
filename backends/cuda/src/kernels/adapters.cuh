// Adapters in the kernels of products of one row: B times low is added to W times x as so many further columns of the dot product.
//
//   low      scale A x, one number a rank. A block of the product makes its share of them, in f32, before its own tiles. So factors and
//            whatever else comes behind the dot product are the product's own
//
//   words    a number goes to all blocks as a word of 64 bits, which is not 0. One warp of a block asks for each word until it is there, and
//            puts it into shared memory. Many warps would wait for one line of the cache
//
//   order    what a block waits for is made by blocks of lower numbers, or its own before it waits. Blocks start in the order of their numbers
//
//   zeros    when all blocks have left, the last one makes the words zeros again. The next kernel writes words after its wait for this one
#pragma once
#include "prelude.cuh"

struct Adapter {
  i64 a, b, rank;
  float scale;
};

/// The adapter in a row of a table; false where it does not lie in the pool.
DEV bool read_adapter(const int* row, float alpha, i64 k, i64 n, i64 pool_count, Adapter& adapter) {
  adapter = {row[0], row[1], row[2], alpha * __int_as_float(row[3])};
  return adapter.a >= 0 && adapter.b >= 0 && adapter.rank >= 0 && adapter.a + adapter.rank * k <= pool_count &&
         adapter.b + adapter.rank * n <= pool_count;
}

#ifndef QUERN_EMULATED_CARD
DEV void store_word(u64* p, u64 v) { asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory"); }
DEV u64 load_word(const u64* p) {
  u64 v;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
#endif

enum { KEPT_RANKS = 128 };  // of each part, in shared memory; further ones are asked for again and again
struct AdaptersShared {
  Adapter of[3];  // of the row, a part each; rank 0: none
  float sums[32];
  float low[3][KEPT_RANKS];
  u32 taken, left;  // 1: low is there; warps that have left
};

/// The adapter in a slot, of rank 0 where a row has none; whether it should have one.
DEV bool find_adapter(const AdapterPart& part, int slot, int k, Adapter& found) {
  found = {0, 0, 0, 0.0f};
  if (!part.table || slot == -1) return false;
  bool stray = slot < 0 || slot >= part.slots;
  if (!stray) stray = !read_adapter(at<const int>(part.table) + (i64)slot * 4, part.alpha, k, part.rows, part.pool_count, found);
  if (stray) found.rank = 0;
  return stray;
}
/// Threads 0 to 2 look for the adapter of a part each. A row without one has a rank of 0, one that should have one too.
DEV void find_adapters(const Adapters& q, AdaptersShared& s, int k, int thread) {
  if (thread >= 3) return;
  if (thread == 0) s.taken = s.left = 0;
  const AdapterPart& part = q.part[thread];
  Adapter found;
  const bool stray = find_adapter(part, part.table ? *at<const int>(part.slot) : -1, k, found);
  if (stray && blockIdx.x == 0) raise_fault(q.faults);
  s.of[thread] = found;
}

/// Rank `j` of all parts together is rank `r` of the part that is returned; 3: there are fewer.
DEV int part_of_rank(const AdaptersShared& s, i64 j, i64& r) {
  int part = 0;
  r = j;
  while (part < 3 && r >= s.of[part].rank) r -= s.of[part++].rank;
  return part;
}
DEV float4 four_of_pool(const AdapterPart& part, i64 i) {
  const Address address = part.pool + (Address)i * (part.pool_dtype == F32 ? 4 : 2);
  if (part.pool_dtype == F32 && address % 16 == 0) return *at<const float4>(address);
  const void* pool = at<const void>(part.pool);
  return make_float4(load_float(pool, part.pool_dtype, i), load_float(pool, part.pool_dtype, i + 1), load_float(pool, part.pool_dtype, i + 2),
                     load_float(pool, part.pool_dtype, i + 3));
}

enum { ADAPTER_TURNS = 2 };  // fours of A that a thread asks for ahead: with more, stream_adapted_1 spills registers
/// What a thread has of the first rank that its block makes: fours `thread`, `thread` + THREADS and so on.
template <int THREADS> struct FirstRank {
  float4 of_a[ADAPTER_TURNS];
  DEV void ask(const Adapters& q, const AdaptersShared& s, int k, int thread) {
    i64 r;
    const int part = part_of_rank(s, blockIdx.x, r);
    if (part == 3) return;
#pragma unroll
    for (int n = 0; n < ADAPTER_TURNS; ++n)
      if (const int i = (thread + n * THREADS) * 4; i < k) of_a[n] = four_of_pool(q.part[part], s.of[part].a + r * k + i);
  }
};

/// The block's share of low. All threads that compute come here; `meet`: a barrier of them. k is a multiple of 4.
template <int THREADS, class Meet>
DEV void make_low(const Adapters& q, AdaptersShared& s, const FirstRank<THREADS>& first, int k, int thread, Meet meet) {
  i64 r;
  for (i64 j = blockIdx.x;; j += gridDim.x) {
    const int part = part_of_rank(s, j, r);
    if (part == 3) return;
    float sum = 0.0f;
    const auto add = [&](int i, const float4& a) {
      const float4 x = __ldcg(at<const float4>(q.x) + i / 4);
      const float4 w = q.weight ? at<const float4>(q.weight)[i / 4] : make_float4(1.0f, 1.0f, 1.0f, 1.0f);
      const float o = q.weight ? q.offset : 0.0f;
      sum = fmaf(a.x, x.x * (w.x + o), fmaf(a.y, x.y * (w.y + o), fmaf(a.z, x.z * (w.z + o), fmaf(a.w, x.w * (w.w + o), sum))));
    };
    const i64 row = s.of[part].a + r * k;
    const bool ahead = j == blockIdx.x;
#pragma unroll
    for (int n = 0; n < ADAPTER_TURNS; ++n)
      if (const int i = (thread + n * THREADS) * 4; i < k) add(i, ahead ? first.of_a[n] : four_of_pool(q.part[part], row + i));
    for (int i = (thread + ADAPTER_TURNS * THREADS) * 4; i < k; i += THREADS * 4) add(i, four_of_pool(q.part[part], row + i));
    sum = warp_sum(sum);
    meet();  // of the rank before
    if ((thread & 31) == 0) s.sums[thread >> 5] = sum;
    meet();
    if (thread == 0) {
      float whole = 0.0f;
      for (int w = 0; w < THREADS / 32; ++w) whole += s.sums[w];
      store_word(at<u64>(q.words) + (i64)part * q.most_rank + r, 1ull << 32 | __float_as_uint(s.of[part].scale * whole));
    }
  }
}

/// Number `r` of low, which some block makes or has made.
DEV float low_of(const Adapters& q, int part, i64 r) {
  const u64* word = at<const u64>(q.words) + (i64)part * q.most_rank + r;
  u64 v;
  do v = load_word(word);
  while (v == 0);
  return __uint_as_float((u32)v);
}

/// A lane's element of the row of B of one output, asked for before the output's dot product; 0 where there is none.
DEV float row_of_b(const Adapters& q, const AdaptersShared& s, int part, int output, int r) {
  const AdapterPart& of = q.part[part];
  const i64 row = of.first + output;
  if (r >= s.of[part].rank || row >= of.rows) return 0.0f;
  return load_float(at<const void>(of.pool), of.pool_dtype, s.of[part].b + row * s.of[part].rank + r);
}
/// One warp of a block comes here behind its first dot products, whichever these are: others wait for it.
DEV void take_low(const Adapters& q, AdaptersShared& s, int lane) {
  volatile u32& taken = s.taken;
  if (taken) return;
  for (int part = 0; part < 3; ++part)
    for (int r = lane; r < min((int)s.of[part].rank, (int)KEPT_RANKS); r += 32) s.low[part][r] = low_of(q, part, r);
  __threadfence_block();
  __syncwarp();
  if (lane == 0) taken = 1;
  __syncwarp();
}
/// All others before times_low().
DEV void wait_for_low(const AdaptersShared& s) {
  const volatile u32& taken = s.taken;
  while (!taken) {}
  __threadfence_block();
}
/// A lane's part of B low of that output. `first`: its element of the first 32.
DEV float times_low(const Adapters& q, const AdaptersShared& s, int part, int output, int lane, float first) {
  const int rank = (int)s.of[part].rank;
  float sum = lane < rank ? first * s.low[part][lane] : 0.0f;
#pragma unroll 1
  for (int r = lane + 32; r < rank; r += 32) sum = fmaf(row_of_b(q, s, part, output, r), r < KEPT_RANKS ? s.low[part][r] : low_of(q, part, r), sum);
  return sum;
}

/// A warp has read its last number of low. `warps`: of a block that come here.
DEV void leave_words(const Adapters& q, AdaptersShared& s, u32 warps, int lane) {
  i64 r;
  if (part_of_rank(s, 0, r) == 3) return;  // there are none
  __syncwarp();
  u32 last = 0;
  if (lane == 0) last = atomicAdd(&s.left, 1u) == warps - 1 && atomicInc(at<u32>(q.count), gridDim.x - 1) == gridDim.x - 1;
  if (!__shfl_sync(~0u, last, 0)) return;
  for (int part = 0; part < 3; ++part)
    for (i64 i = lane; i < s.of[part].rank; i += 32) store_word(at<u64>(q.words) + (i64)part * q.most_rank + i, 0);
}
