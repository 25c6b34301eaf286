#version 460
// Copies items of a fixed size between two views of one shape. Constant 1: bytes of an item, a multiple of constant 2; constant 2: bytes
// that are moved at a time.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
layout(constant_id = 1) const int item_bytes = 4;
layout(constant_id = 2) const int unit_bytes = 4;
STORED(CopyParams)
#define p (ParamsAt(stored).params)

void main() {
  FOR_EACH_ITEM(i, p.shape.count) {
    if (p.predicate != 0ul && Int(p.predicate + uint64_t(i / p.items_a_row) * 4ul).v == 0) continue;
    ADDRESS(from, p.x, p.shape, i)
    ADDRESS(to, p.y, p.shape, i)
    for (int b = 0; b < item_bytes; b += unit_bytes) {
      if (unit_bytes == 4) Uint(to + uint64_t(b)).v = Uint(from + uint64_t(b)).v;
      else if (unit_bytes == 2) Short(to + uint64_t(b)).v = Short(from + uint64_t(b)).v;
      else Byte(to + uint64_t(b)).v = Byte(from + uint64_t(b)).v;
    }
  }
}
