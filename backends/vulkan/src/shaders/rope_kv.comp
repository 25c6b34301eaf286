#version 460
// Queries and keys rotated by rows of the table, as rope.comp does; queries to memory, keys and values to their pages, as kv_write.comp does.
// An invocation a pair, or an element behind the pairs or of the values.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
STORED(RopeKvParams)
#define p (ParamsAt(stored).params)

void main() {
  const uint units = p.d - p.pairs, q_units = p.heads * units, k_units = p.kv_heads * units, v_units = p.kv_heads * p.dv;
  for (uint t = gl_WorkGroupID.y; t < p.rows; t += gl_NumWorkGroups.y) {
    const int position = Int(p.position + uint64_t(t) * 4ul).v, slot = Int(p.row_slot + uint64_t(t) * 4ul).v;
    const bool inside = position >= 0 && position < p.positions;
    int page = -1;
    if (position >= 0 && position / p.page < p.pages_a_sequence && slot >= 0 && slot < p.sequences)
      page = Int(p.block_table + (uint64_t(slot) * uint64_t(p.pages_a_sequence) + uint64_t(position / p.page)) * 4ul).v;
    const bool writes = page >= 0 && page < p.pages;
    const uint64_t at_position = uint64_t(max(position, 0) % p.page);
    FOR_EACH_ITEM(item, q_units + k_units + v_units) {
      if (item == 0u && (!inside || (!writes && position != -1))) raise(p.faults, FAULT_INDEX_RANGE);
      if (item >= q_units + k_units) {
        const uint i = item - q_units - k_units, head = i / p.dv, c = i % p.dv;
        if (!writes) continue;
        const uint64_t to = p.v_cache + uint64_t(int64_t(page) * p.v_page + int64_t(head) * p.v_head) + at_position * uint64_t(p.v_position);
        store_packed(to, p.v_dtype, c, load_packed(p.v, F32, t * v_units + i));
        continue;
      }
      const bool key = item >= q_units;
      const uint i = key ? item - q_units : item, head = i / units, unit = i % units;
      const uint64_t x = key ? p.k + uint64_t((t * p.kv_heads + head) * p.d) * 4ul : p.q + uint64_t((t * p.heads + head) * p.d) * 4ul;
      uint first = 2u * p.pairs + (unit - p.pairs), second = first;
      if (unit < p.pairs) {
        first = p.mode == 0 ? 2u * unit : unit;
        second = p.mode == 0 ? 2u * unit + 1u : unit + p.pairs;
      }
      float a = load_packed(x, F32, first), b = load_packed(x, F32, second);
      if (!inside) {
        a = b = 0.0;
      } else if (unit < p.pairs) {
        const uint64_t turn = p.table + uint64_t(int64_t(position) * p.table_stride) + uint64_t(unit) * 8ul;
        const float cosine = Float(turn).v, sine = Float(turn + 4ul).v, turned = a * cosine - b * sine;
        b = a * sine + b * cosine;
        a = turned;
      }
      uint64_t to = p.q_out + uint64_t((t * p.heads + head) * p.d) * 4ul;
      if (key) {
        if (!writes) continue;
        to = p.k_cache + uint64_t(int64_t(page) * p.k_page + int64_t(head) * p.k_head) + at_position * uint64_t(p.k_position);
      }
      store_packed(to, key ? p.k_dtype : F32, first, a);
      if (second != first) store_packed(to, key ? p.k_dtype : F32, second, b);
    }
  }
}
