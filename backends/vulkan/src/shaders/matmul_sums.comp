#version 460
// Sums of parts of k (matmul_tiles.comp) in their order, an invocation an output.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
STORED(MatmulParams)
#define p (ParamsAt(stored).params)
#include "product.glsl"

void main() {
  for (uint batch = gl_WorkGroupID.z; batch < p.batch; batch += gl_NumWorkGroups.z) {
    const Places at = places_of(batch);
    FOR_EACH_ITEM(item, p.m * p.n) {
      float sum = 0.0;
      for (uint part = 0u; part < p.parts; ++part)
        sum += Float(p.partial + (uint64_t(batch * p.parts + part) * uint64_t(p.m) * uint64_t(p.n) + uint64_t(item)) * 4ul).v;
      finish(at, item / p.n, item % p.n, sum);
    }
  }
}
