#version 460
// Uniform numbers of a counter, or dropout by them. Constant 1: dropout.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "philox.glsl"
layout(constant_id = 1) const int drops = 0;
STORED(RandomParams)
#define p (ParamsAt(stored).params)

void main() {
  const uvec2 key = uvec2(Uint(p.seed).v, Uint(p.seed + 4ul).v);
  const uint step = Uint(p.step).v;
  FOR_EACH_ITEM(i, p.shape.count) {
    const uint64_t at = p.first + uint64_t(i);  // of the whole tensor
    const uvec4 words = philox(uvec4(uint(at / 4ul), step, p.salt, 0u), key);
    const float u = unit_interval(words[uint(at % 4ul)]);
    ADDRESS(y, p.y, p.shape, i)
    if (drops == 0) {
      store_float(y, p.y.dtype, u);
    } else {
      ADDRESS(x, p.x, p.shape, i)
      store_float(y, p.y.dtype, u >= p.probability ? load_float(x, p.x.dtype) / (1.0 - p.probability) : 0.0);
    }
  }
}
