#version 460
// Rows of keys or values to their pages: an invocation an element, or a block of 32. Constant 1: the cache's format.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "blocks.glsl"
layout(constant_id = 1) const int format = F32;
#include "encode.glsl"
STORED(KvParams)
#define p (ParamsAt(stored).params)

void main() {
  const uint unit = format < Q4_0 ? 1u : 32u, units = p.d / unit;
  FOR_EACH_ITEM(item, p.rows * p.kv_heads * units) {
    const uint c = item % units, head = item / units % p.kv_heads, t = item / units / p.kv_heads;
    if (!row_live(p.predicate, t)) continue;
    const int position = Int(p.position + uint64_t(t) * 4ul).v, slot = Int(p.row_slot + uint64_t(t) * 4ul).v;
    if (position == -1) continue;
    int page = -1;
    if (position >= 0 && position / p.page < p.pages_a_sequence && slot >= 0 && slot < p.sequences)
      page = Int(p.block_table + (uint64_t(slot) * uint64_t(p.pages_a_sequence) + uint64_t(position / p.page)) * 4ul).v;
    if (page < 0 || page >= p.pages) {
      if (c == 0u && head == 0u) raise(p.faults, FAULT_INDEX_RANGE);
      continue;
    }
    const uint64_t x = p.x + uint64_t(int64_t(t) * p.x_row + int64_t(head) * p.x_head);
    const uint64_t to = p.cache + uint64_t(int64_t(page) * p.page_stride + int64_t(head) * p.head_stride + int64_t(position % p.page) * p.position_stride);
    if (format < Q4_0) {
      store_packed(to, format, c, load_float(x + uint64_t(int64_t(c) * int64_t(p.x_step)), p.x_dtype));
    } else {
      source = Floats(x + uint64_t(int64_t(c * 32u) * int64_t(p.x_step)), p.x_dtype, p.x_step);
      encode_block(to + uint64_t(c) * uint64_t(block_bytes(format)), format);
    }
  }
}
