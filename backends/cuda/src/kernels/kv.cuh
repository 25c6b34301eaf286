// Where a row's keys lie in the paged cache, and how a cache of blocks is written and read.
#pragma once
#include "encode.cuh"

/// page * page size + place in the page of row t, or -1: nothing is written.
DEV i64 page_slot(const Pages& p, i64 t, Address faults) {
  const int position = __ldcg(at<const int>(p.position) + t);
  if (position == -1) return -1;
  const int sequence = __ldcg(at<const int>(p.row_slot) + t);
  const bool known = position >= 0 && sequence >= 0 && sequence < p.sequences && position / p.page < p.pages_per_sequence;
  const int page = known ? __ldcg(at<const int>(p.block_table) + (i64)sequence * p.pages_per_sequence + position / p.page) : -1;
  if (page < 0 || page >= p.pages) {
    if (threadIdx.x == 0) raise_fault(faults);
    return -1;
  }
  return (i64)page * p.page + position % p.page;
}
/// How many runs of rows of one sequence `rows` of a step have, from row `first` on; all threads of a block of as many or more.
DEV int runs_of(const Pages& p, int first, int rows) {
  const int r = threadIdx.x;
  const int* slot = at<const int>(p.row_slot) + first;
  return __syncthreads_count(r < rows && (r == 0 || slot[r] != slot[r - 1]));
}
/// First element of a head's vector: [pages, kv_heads, page, d].
DEV i64 cache_element(const Pages& p, i64 slot, i64 head) {
  return ((slot / p.page * p.kv_heads + head) * p.page + slot % p.page) * p.d;
}

/// A warp's 32 values as block `block` of a cache of q8_0 or q4_0.
DEV void encode32(float x, const Pages& p, i64 block) { encode_block32(x, p.dtype, at<char>(p.cache) + block * (p.dtype == Q8_0 ? 34 : 18)); }

/// Elements i and i + 1 (i even) behind element `base` of the cache.
template <int F> DEV float2 load_pair(const Pages& p, i64 base, int i) {
  if (F == F32) return *reinterpret_cast<const float2*>(at<const float>(p.cache) + base + i);
  if (F == F16) {
    const u32 v = *reinterpret_cast<const u32*>(at<const u16>(p.cache) + base + i);
    return make_float2(from_half((u16)v), from_half((u16)(v >> 16)));
  }
  if (F == BF16) {
    const u32 v = *reinterpret_cast<const u32*>(at<const u16>(p.cache) + base + i);
    return make_float2(__uint_as_float(v << 16), __uint_as_float(v & 0xffff0000u));
  }
  const i64 e = base + i, block = e / 32;
  const int c = (int)(e % 32);
  if (F == Q8_0) {
    const char* from = at<const char>(p.cache) + block * 34;
    const float d = from_half(*reinterpret_cast<const u16*>(from));
    return make_float2(d * from[2 + c], d * from[3 + c]);
  }
  const u8* from = at<const u8>(p.cache) + block * 18;
  const float d = from_half(*reinterpret_cast<const u16*>(from));
  const int shift = c >= 16 ? 4 : 0;
  return make_float2(d * ((from[2 + c % 16] >> shift & 15) - 8), d * ((from[3 + c % 16] >> shift & 15) - 8));
}
