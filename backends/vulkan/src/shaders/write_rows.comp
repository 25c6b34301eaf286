#version 460
// table[index[i]] = x[i], or += x[i]: an invocation a place of a row, for the row of x that decides it. Constant 1 is the
// table's format. With a constant 2 of 0 the last of several rows wins. With 1 the first adds all of them in their order; with 2 -1 is out of range too.
// The indices of each row are in lists (row_lists.comp).
//
// Index -1 skips in modes 0 and 1; any other index out of range raises a fault and writes nothing.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "modes.h"
#include "blocks.glsl"
layout(constant_id = 1) const int format = F32;
layout(constant_id = 2) const int mode = 0;
#include "encode.glsl"
PUSHED(RowsParams)
#include "row_lists.glsl"
float x_of(uint i, uint c) { return load_float(p.x + uint64_t(int64_t(i) * p.x_stride + int64_t(c) * int64_t(p.x_step)), p.x_dtype); }

void main() {
  const uint unit = format < Q4_0 ? 1u : block_elements(format), units = p.h / unit;
  FOR_EACH_ITEM(item, p.count * units) {
    const uint i = item / units, c = item % units;
    if (!row_live(p.predicate, i)) continue;
    const int row = row_of(i);
    if (row == -1 && mode != rows_add_strictly) continue;
    if (row < 0 || uint(row) >= p.rows) {
      if (c == 0u) raise(p.faults, FAULT_INDEX_RANGE);
      continue;
    }
    if (Link(mode == rows_last ? next_of(i) : before_of(i)).v != NO_INDEX) continue;
    const uint64_t to = p.table + uint64_t(row) * uint64_t(p.table_stride);
    if (format >= Q4_0) {
      source = Floats(p.x + uint64_t(int64_t(i) * p.x_stride + int64_t(c * unit) * int64_t(p.x_step)), p.x_dtype, p.x_step);
      encode_block(to + uint64_t(c) * uint64_t(block_bytes(format)), format);
      continue;
    }
    const uint64_t at = to + uint64_t(int64_t(c) * int64_t(p.table_step));
    float v = mode == rows_last ? x_of(i, c) : load_float(at, format) + x_of(i, c);
    if (mode != rows_last)
      for (uint j = Link(next_of(i)).v; j != NO_INDEX; j = Link(next_of(j)).v) v += x_of(j, c);
    store_float(at, format, v);
  }
}
