#version 460
// The same bits in every element of a view.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
PUSHED(FillParams)

void main() {
  FOR_EACH_ITEM(i, p.shape.count) {
    ADDRESS(at, p.y, p.shape, i)
    if (p.y.dtype == F16 || p.y.dtype == BF16) Short(at).v = uint16_t(p.bits);
    else Uint(at).v = p.bits;
  }
}
