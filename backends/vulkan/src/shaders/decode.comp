#version 460
// Rows of blocks to rows of floats, an invocation 16 elements. Constant 1: the format; 2: the blocks lie in planes.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "blocks.glsl"
#include "any_format.glsl"
#include "planes.glsl"
layout(constant_id = 1) const int format = Q8_0;
layout(constant_id = 2) const int packed = 0;
STORED(BlockRowsParams)
#define p (ParamsAt(stored).params)

void main() {
  FOR_EACH_ITEM(i, p.rows.count * p.units) {
    const uint row = i / p.units, first = i % p.units * 16u;
    ADDRESS(x, p.x, p.rows, row)
    ADDRESS(y, p.y, p.rows, row)
    const uint n = any_block_elements(format);
    Group group;
    if (packed != 0) group = open_packed(planes_at(p.x.data, format, p.blocks), p.first_block + uint64_t(row) * uint64_t(p.row_blocks) + uint64_t(first / n), format, first % n);
    else group = open_any(x + uint64_t(int64_t(first / n) * int64_t(p.x.step)), format, first % n);
    for (uint j = 0u; j < 8u; ++j) {
      const vec2 w = pair_of_any(group, format, j);
      store_float(y + uint64_t(int64_t(first + 2u * j) * int64_t(p.y.step)), p.y.dtype, w.x);
      store_float(y + uint64_t(int64_t(first + 2u * j + 1u) * int64_t(p.y.step)), p.y.dtype, w.y);
    }
  }
}
