#version 460
// Copies whole pages, or moves single positions in their order, within a cache, two bytes at a time; one workgroup for moves. Constant 1: moves.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
layout(constant_id = 1) const int moves = 0;
STORED(KvParams)
#define p (ParamsAt(stored).params)

/// Where a position of a sequence lies for head 0, or 0.
uint64_t place(int slot, int position) {
  if (position < 0 || position / p.page >= p.pages_a_sequence || slot < 0 || slot >= p.sequences) return 0ul;
  const int page = Int(p.block_table + (uint64_t(slot) * uint64_t(p.pages_a_sequence) + uint64_t(position / p.page)) * 4ul).v;
  if (page < 0 || page >= p.pages) return 0ul;
  return p.cache + uint64_t(int64_t(page) * p.page_stride + int64_t(position % p.page) * p.position_stride);
}

void main() {
  const uint shorts = uint(p.row_bytes) / 2u;
  if (moves == 0) {
    const uint units = shorts * uint(p.page) * p.kv_heads;
    FOR_EACH_ITEM(item, p.rows * units) {
      const uint i = item / units, c = item % shorts, at = item % units / shorts;
      const int from = Int(p.row_slot + uint64_t(i) * 4ul).v, to = Int(p.position + uint64_t(i) * 4ul).v;
      if (!row_live(p.predicate, i)) continue;
      if (from < 0 || from >= p.pages || to < 0 || to >= p.pages) {
        if (c == 0u && at == 0u) raise(p.faults, FAULT_INDEX_RANGE);
        continue;
      }
      const uint64_t inside = uint64_t(int64_t(at / uint(p.page)) * p.head_stride + int64_t(at % uint(p.page)) * p.position_stride) + uint64_t(c) * 2ul;
      Short(p.cache + uint64_t(int64_t(to) * p.page_stride) + inside).v = Short(p.x + uint64_t(int64_t(from) * p.page_stride) + inside).v;
    }
    return;
  }
  for (uint i = 0u; i < p.rows; ++i) {
    const int slot = Int(p.row_slot + uint64_t(i) * 4ul).v;
    const uint64_t from = place(slot, Int(p.x + uint64_t(i) * 4ul).v), to = place(slot, Int(p.position + uint64_t(i) * 4ul).v);
    const bool live = row_live(p.predicate, i), there = from != 0ul && to != 0ul;
    if (live && !there && gl_LocalInvocationID.x == 0u) raise(p.faults, FAULT_INDEX_RANGE);
    if (live && there)
      FOR_EACH_LANE(item, shorts * p.kv_heads) {
        const uint64_t inside = uint64_t(int64_t(item / shorts) * p.head_stride) + uint64_t(item % shorts) * 2ul;
        Short(to + inside).v = Short(from + inside).v;
      }
    memoryBarrierBuffer();
    barrier();
  }
}
