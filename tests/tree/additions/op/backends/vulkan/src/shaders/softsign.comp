#version 460
// y = x / (1 + |x|), one element an invocation.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
STORED(ElementwiseParams)
#define p (ParamsAt(stored).params)

void main() {
  FOR_EACH_ITEM(i, p.shape.count) {
    ADDRESS(at_x, p.a, p.shape, i)
    ADDRESS(at_y, p.y, p.shape, i)
    const float x = load_float(at_x, p.a.dtype), size = abs(x);
    store_float(at_y, p.y.dtype, size > 1073741824.0 ? (x < 0.0 ? -1.0 : 1.0) : x / (1.0 + size));
  }
}
