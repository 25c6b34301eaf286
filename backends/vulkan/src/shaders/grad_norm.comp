#version 460
// The root of a sum of squares in f64, and whether it is finite; and the scale that clips by it. Constant 1: 0 partial sums of one tensor,
// 1 the norm of all of them, 2 the scale. The square of a finite f32 is below 2^256, so a sum in f64 is finite if and only if all elements are.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "modes.h"
layout(constant_id = 1) const int op = 0;
PUSHED(GradNormParams)

layout(buffer_reference, std430, buffer_reference_align = 8) buffer Double { double v; };
shared double part[gl_WorkGroupSize.x];

void main() {
  const uint lane = gl_LocalInvocationID.x;
  if (op == grad_norm_scale) {
    if (gl_GlobalInvocationID.x != 0u) return;
    const double loss_scale = p.finite == 0ul ? 1.0LF : double(Float(p.finite).v);
    const double clipped = double(p.max_norm) / (double(Float(p.norm).v) / loss_scale);
    const double least = clipped > 1.0LF ? 1.0LF : clipped;
    Float(p.partial).v = float(least / loss_scale);
    return;
  }
  double sum = 0.0LF;
  if (op == grad_norm_parts) {
    FOR_EACH_ITEM(i, p.shape.count) {
      ADDRESS(x, p.x, p.shape, i)
      const double v = double(load_float(x, p.x.dtype));
      sum += v * v;
    }
  } else {
    FOR_EACH_LANE(i, p.count) sum += Double(p.partial + uint64_t(i) * 8ul).v;
  }
  part[lane] = sum;
  barrier();
  if (lane != 0u) return;
  sum = 0.0LF;
  for (uint l = 0u; l < gl_WorkGroupSize.x; ++l) sum += part[l];
  if (op == grad_norm_parts) {
    Double(p.partial + uint64_t(gl_WorkGroupID.x) * 8ul).v = sum;
  } else {
    const uvec2 bits = unpackDouble2x32(sum);
    const bool finite = (bits.y & 0x7ff00000u) != 0x7ff00000u;
    Float(p.norm).v = float(sqrt(sum));
    Int(p.finite).v = finite ? 1 : 0;
  }
}
