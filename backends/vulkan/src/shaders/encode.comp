#version 460
// Rows of floats to rows of blocks, an invocation a block. Constant 1: the format.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "blocks.glsl"
layout(constant_id = 1) const int format = Q8_0;
#include "encode.glsl"
#define ENCODES
#include "any_format.glsl"
STORED(BlockRowsParams)
#define p (ParamsAt(stored).params)

void main() {
  FOR_EACH_ITEM(i, p.rows.count * p.units) {
    const uint row = i / p.units, unit = i % p.units;
    ADDRESS(x, p.x, p.rows, row)
    ADDRESS(y, p.y, p.rows, row)
    source = Floats(x + uint64_t(int64_t(unit * any_block_elements(format)) * int64_t(p.x.step)), p.x.dtype, p.x.step);
    encode_any(y + uint64_t(int64_t(unit) * int64_t(p.y.step)), format);
  }
}
