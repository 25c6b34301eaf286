#version 460
// y = a b^T + bias + c of int8 activations and quantised weights: a subgroup computes `tile_n` outputs of `tile_m` rows, its lanes striding
// along k by 64 elements. Constant 1: format of b; 2: rows at a time.
//
// The order of summation depends on k and the subgroup alone.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "prelude.glsl"
#include "blocks.glsl"
#include "planes.glsl"
#include "dot.glsl"
#include "units.glsl"
#include "activations_i8.glsl"
layout(constant_id = 1) const int format = Q8_0;
layout(constant_id = 2) const int tile_m = 1;
const int tile_n = 2;
PUSHED(GemvParams)

void main() {
  const uint lanes = subgroupAdd(1u), lane = subgroupExclusiveAdd(1u);
  const uint units = p.k / 64u, row_blocks = p.k / block_elements(format);
  const Planes planes = planes_at(p.b, format, uint64_t(p.n) * uint64_t(row_blocks));
  for (uint base = gl_WorkGroupID.y * uint(tile_m); base < p.m; base += gl_NumWorkGroups.y * uint(tile_m)) {
    for (uint first = (gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID) * uint(tile_n); first < p.n;
         first += gl_NumWorkGroups.x * gl_NumSubgroups * uint(tile_n)) {
      float sum[tile_m * tile_n];
      [[unroll]] for (int i = 0; i < tile_m * tile_n; ++i) sum[i] = 0.0;
      for (uint unit = lane; unit < units; unit += lanes) {
        Unit w[tile_n];
        [[unroll]] for (int r = 0; r < tile_n; ++r) {
          const uint64_t row = uint64_t(min(first + uint(r), p.n - 1u));
          w[r] = decode_unit(format, load_unit(format, p.b + row * uint64_t(row_blocks * block_bytes(format)), planes, row * uint64_t(row_blocks), unit), unit);
        }
        [[unroll]] for (int t = 0; t < tile_m; ++t) {
          const uint a_row = min(base + uint(t), p.m - 1u);
          [[unroll]] for (uint g = 0u; g < 4u; ++g) {
            const uint at = group_begin(format, unit, g);
            const uvec4 code = words_at(codes_of(p.a, p.k, a_row, at));
            const vec2 scale = FloatPair(scales_of(p.a, p.m, p.k, a_row, at)).v;
            [[unroll]] for (int r = 0; r < tile_n; ++r)
              sum[t * tile_n + r] = fma(w[r].f[g], scale.x * float(dot16(w[r].code[g], code)), fma(w[r].m[g], scale.y, sum[t * tile_n + r]));
          }
        }
      }
      float total[tile_m * tile_n];
      [[unroll]] for (int i = 0; i < tile_m * tile_n; ++i) total[i] = subgroupAdd(sum[i]);
      [[dont_unroll]] for (uint o = lane; o < uint(tile_m * tile_n); o += lanes) {
        const uint i = base + o / uint(tile_n), j = first + o % uint(tile_n);
        if (i >= p.m || j >= p.n) continue;
        float v = total[o];
        if (p.bias != 0ul) v += load_packed(p.bias, p.bias_dtype, j);
        if (p.c != 0ul) v += Float(p.c + (uint64_t(i) * uint64_t(p.n) + uint64_t(j)) * 4ul).v;
        Float(p.y + (uint64_t(i) * uint64_t(p.n) + uint64_t(j)) * 4ul).v = v;
      }
    }
  }
}
