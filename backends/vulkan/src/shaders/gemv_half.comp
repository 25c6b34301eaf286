#version 460
// gemv_one.comp of weights of f16: each workgroup makes the row for itself, as f32 in shared memory, norm and SwiGLU included. Constants 1: what
// the row is (quantise.comp); 2: k, a multiple of 64; 3: 1 where the result is silu(x b^T) * (x other_b^T).
//
// A subgroup computes two outputs, its lanes striding along k by eight elements, four times in flight. Weights are read once; the order of
// summation depends on k and the subgroup alone.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "prelude.glsl"
#include "math.glsl"
#include "group.glsl"
layout(constant_id = 1) const int mode = 0;
layout(constant_id = 2) const int k = 2048;
layout(constant_id = 3) const int paired = 0;
PUSHED(GemvOneParams)
#define PLAIN 0
#define NORM 1
#define GLU 2

const int rows_at_once = 2, steps_at_once = 4;
const int rows_a_tile = paired != 0 ? 1 : rows_at_once;
const uint fours = uint(k) / 4u, units = uint(k) / 8u;

shared vec4 row[fours];

vec4 four_at(uint64_t at, uint i) { return Float4(at + uint64_t(i) * 16ul).v; }

void make_row() {
  float squares = 0.0;
  FOR_EACH_LANE(i, fours) {
    vec4 v = four_at(p.x, i);
    if (mode == NORM) squares += dot(v, v);
    if (mode == GLU) v = vec4(v.x * sigmoid_of(v.x), v.y * sigmoid_of(v.y), v.z * sigmoid_of(v.z), v.w * sigmoid_of(v.w)) * four_at(p.other, i);
    row[i] = v;
  }
  if (mode == NORM) {
    const float factor = 1.0 / sqrt(group_sum(squares) / float(k) + p.epsilon);
    FOR_EACH_LANE(i, fours) row[i] = row[i] * factor * (four_at(p.other, i) + p.offset);
  }
  barrier();
}



void main() {
  const uint lanes = subgroupAdd(1u), lane = subgroupExclusiveAdd(1u);
  const uint tiles = (p.n + uint(rows_a_tile) - 1u) / uint(rows_a_tile), stride = gl_NumWorkGroups.x * gl_NumSubgroups;
  make_row();
  for (uint tile = gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID; tile < tiles; tile += stride) {
    uint64_t at[rows_at_once];
    float sum[rows_at_once];
    [[unroll]] for (int r = 0; r < rows_at_once; ++r) {
      const uint j = paired != 0 ? tile : min(tile * 2u + uint(r), p.n - 1u);
      at[r] = (paired != 0 && r == 1 ? p.other_b : p.b) + uint64_t(j) * uint64_t(k * 2);
      sum[r] = 0.0;
    }
    for (uint first = lane; first < units; first += lanes * uint(steps_at_once)) {
      uvec4 w[rows_at_once * steps_at_once];
      [[unroll]] for (int s = 0; s < steps_at_once; ++s) {
        const uint unit = first + uint(s) * lanes;
        [[unroll]] for (int r = 0; r < rows_at_once; ++r) w[s * rows_at_once + r] = unit < units ? Uint4(at[r] + uint64_t(unit) * 16ul).v : uvec4(0u);
      }
      [[unroll]] for (int s = 0; s < steps_at_once; ++s) {
        const uint unit = first + uint(s) * lanes;
        if (unit >= units) continue;
        const vec4 a = row[2u * unit], b = row[2u * unit + 1u];
        [[unroll]] for (int r = 0; r < rows_at_once; ++r) {
          const uvec4 h = w[s * rows_at_once + r];
          const vec2 h0 = unpackHalf2x16(h.x), h1 = unpackHalf2x16(h.y), h2 = unpackHalf2x16(h.z), h3 = unpackHalf2x16(h.w);
          sum[r] = fma(a.y, h0.y, fma(a.x, h0.x, sum[r]));
          sum[r] = fma(a.w, h1.y, fma(a.z, h1.x, sum[r]));
          sum[r] = fma(b.y, h2.y, fma(b.x, h2.x, sum[r]));
          sum[r] = fma(b.w, h3.y, fma(b.z, h3.x, sum[r]));
        }
      }
    }
    float total[rows_at_once];
    [[unroll]] for (int r = 0; r < rows_at_once; ++r) total[r] = subgroupAdd(sum[r]);
    if (paired != 0) {
      if (lane == 0u) Float(p.y + uint64_t(tile) * 4ul).v = total[0] * sigmoid_of(total[0]) * total[1];
      continue;
    }
    [[dont_unroll]] for (uint r = lane; r < uint(rows_at_once); r += lanes) {
      const uint j = tile * uint(rows_at_once) + r;
      if (j >= p.n) continue;
      float v = r == 0u ? total[0] : total[1];
      if (p.bias != 0ul) v += load_packed(p.bias, p.bias_dtype, j);
      if (p.c != 0ul) v += Float(p.c + uint64_t(j) * 4ul).v;
      Float(p.y + uint64_t(j) * 4ul).v = v;
    }
  }
}
