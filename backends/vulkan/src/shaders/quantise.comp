#version 460
// Rows as int8 activations (activations_i8.glsl), a workgroup a row, eight neighbours a lane. Constant 1: the rows as they are; 1 after an RMS
// norm; 2 silu(x) * other.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "modes.h"
#include "math.glsl"
#include "group.glsl"
#include "activations_i8.glsl"
layout(constant_id = 1) const int mode = 0;
PUSHED(QuantiseParams)

shared uint largest[gl_WorkGroupSize.x];
shared int code_sum[gl_WorkGroupSize.x];

vec4 four_at(uint64_t row, uint i) { return Float4(row + uint64_t(i) * 4ul).v; }

void main() {
  const uint lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x;
  FOR_EACH_ROW(row, p.rows) {
    const uint64_t x = p.x + uint64_t(int64_t(row) * p.x_row), other = p.other + uint64_t(int64_t(row) * p.other_row);
    float factor = 1.0;
    if (mode == source_norm) {
      float squares = 0.0;
      for (uint i = lane * 4u; i < p.k; i += lanes * 4u) {
        const vec4 v = four_at(x, i);
        squares += dot(v, v);
      }
      factor = 1.0 / sqrt(group_sum(squares) / float(p.k) + p.epsilon);
    }
    for (uint begin = 0u; begin < p.k; begin += lanes * 8u) {
      const uint i = begin + lane * 8u;
      Eight x8 = Eight(vec4[2](vec4(0.0), vec4(0.0)));
      if (i < p.k) {
        for (uint h = 0u; h < 2u; ++h) {
          vec4 part = four_at(x, i + 4u * h);
          if (mode == source_norm) part = part * factor * (four_at(p.weight, i + 4u * h) + p.offset);
          if (mode == source_glu) {
            const vec4 up = four_at(other, i + 4u * h);
            part = vec4(part.x * sigmoid_of(part.x), part.y * sigmoid_of(part.y), part.z * sigmoid_of(part.z), part.w * sigmoid_of(part.w)) * up;
          }
          x8.v[h] = part;
        }
      }
      largest[lane] = largest_of(x8);
      barrier();
      const uint first = lane & ~3u, most = max(max(largest[first], largest[first + 1u]), max(largest[first + 2u], largest[first + 3u]));
      const float scale = scale_of(most);
      int sum = 0;
      const uvec2 word = codes_of_eight(x8, most, sum);
      code_sum[lane] = sum;
      barrier();
      if (i < p.k) {
        UintPair to = UintPair(codes_of(p.y, p.k, row, i));
        to.a = word.x;
        to.b = word.y;
        if ((lane & 1u) == 0u) {
          FloatPair scales = FloatPair(scales_of(p.y, p.rows, p.k, row, i));
          scales.v = vec2(scale, scale * float(sum + code_sum[lane + 1u]));
        }
      }
    }
  }
}
