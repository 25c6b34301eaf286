#version 460
// Rows of quantised weights as rows of f16, each times a power of two as gemm.comp has them, for products of so many rows that each weight
// would be decoded many times; behind them what undoes each row's power, or 0 for a row that f16 has not the range for. A workgroup a row.
//
// Constant 1: format of b.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "memory.glsl"
#include "params_matrices.h"
#include "blocks.glsl"
#include "planes.glsl"
#include "units.glsl"
#include "halves.glsl"
layout(constant_id = 1) const int format = Q8_0;
PUSHED(GemmParams)
const uint threads = gl_WorkGroupSize.x;
const uint unit_pitch = 9;  // of 16 bytes, between units in shared memory
shared uvec4 staged[threads * unit_pitch];
shared float bounds[threads], smallest[threads];

void main() {
  const uint t = gl_LocalInvocationID.x;
  const uint units = p.k / 64u, row_blocks = p.k / block_elements(format);
  const Planes planes = planes_at(p.b, format, uint64_t(p.n) * uint64_t(row_blocks));
  for (uint row = gl_WorkGroupID.x; row < p.n; row += gl_NumWorkGroups.x) {
    const uint64_t b_row = p.b + uint64_t(row) * uint64_t(row_blocks * block_bytes(format)), b_block = uint64_t(row) * uint64_t(row_blocks);
    const uint share = ((row_blocks + threads - 1u) / threads + 7u) / 8u * 8u;  // of the blocks, a multiple of 8 where it can
    const uint from = min(t * share, row_blocks), to = min(from + share, row_blocks);
    Bounds all = Bounds(0.0, INFINITY);
    if (from < to) all = bounds_of_blocks(format, b_row, planes, b_block, from, to);
    bounds[t] = all.most;
    smallest[t] = all.least;
    barrier();
    const uint used = (row_blocks + share - 1u) / share;
    for (uint s = 0u; s < used; ++s) all = Bounds(is_nan(bounds[s]) || all.most <= bounds[s] ? bounds[s] : all.most, min(all.least, smallest[s]));
    float back;
    const float scale = fitting(all.most, back);
    if (t == 0u) Float(p.halves + uint64_t(p.n) * uint64_t(p.k) * 2ul + uint64_t(row) * 4ul).v = is_wide(all) ? 0.0 : back;
    const uint64_t y = p.halves + uint64_t(row) * uint64_t(p.k) * 2ul;
    for (uint first = 0u; first < units; first += threads) {
      const uint unit = first + t, count = min(threads, units - first);
      if (unit < units) {
        const Unit w = decode_unit(format, load_unit(format, b_row, planes, b_block, unit), unit);
        [[unroll]] for (uint g = 0; g < 4u; ++g) {
          const float f = w.f[g] * scale, m = w.m[g] * scale;
          staged[t * unit_pitch + 2u * g] = uvec4(halves_of(format, w.code[g].x, f, m), halves_of(format, w.code[g].y, f, m));
          staged[t * unit_pitch + 2u * g + 1u] = uvec4(halves_of(format, w.code[g].z, f, m), halves_of(format, w.code[g].w, f, m));
        }
      }
      barrier();
      for (uint e = t; e < count * 8u; e += threads)  // neighbours write neighbours
        Uint4(y + uint64_t(group_begin(format, first + e / 8u, e % 8u / 2u) * 2u + (e & 1u) * 16u)).v = staged[e / 8u * unit_pitch + e % 8u];
      barrier();
    }
  }
}
