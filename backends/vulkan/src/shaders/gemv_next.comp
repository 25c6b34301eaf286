#version 460
// gemv_one.comp of a row whose int8 activations the kernel before has made (next_i8.glsl), and which makes those of the next product: nothing
// is waited for but what was asked for at once. A workgroup computes 16 neighbouring outputs, or as many as its subgroups do at a time.
//
// Constants 1: format of b; 2: k; 3: 1 where the result is silu(x b^T) * (x other_b^T); 4: 1 where an RMS norm's factor is still to be found
// from the sums of squares; 5: what becomes of the result: 0 it is stored; 1 and it becomes activations; 2 the same, times the weights of an
// RMS norm, with sums of squares.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "prelude.glsl"
#include "math.glsl"
#include "blocks.glsl"
#include "planes.glsl"
#include "dot.glsl"
#include "units.glsl"
#include "activations_i8.glsl"
#include "next_i8.glsl"
layout(constant_id = 1) const int format = Q8_0;
layout(constant_id = 2) const int k = 2048;
layout(constant_id = 3) const int paired = 0;
layout(constant_id = 4) const int normed = 0;
layout(constant_id = 5) const int makes = 0;
PUSHED(GemvNextParams)

const int rows_at_once = 2;  // paired: the one of b and the one of other_b
const int rows_a_tile = paired != 0 ? 1 : rows_at_once;
const uint units = uint(k) / 64u;
const int most_rows = 512;   // of a workgroup's subgroups at a time

shared float result[most_rows], weighted[most_rows];

void main() {
  const uint lanes = subgroupAdd(1u), lane = subgroupExclusiveAdd(1u);
  const uint row_blocks = uint(k) / block_elements(format), row_bytes = row_blocks * block_bytes(format);
  const Planes planes = planes_at(p.b, format, uint64_t(p.n) * uint64_t(row_blocks));
  const Planes other_planes = planes_at(p.other_b, format, uint64_t(p.n) * uint64_t(row_blocks));
  const uint at_once = gl_NumSubgroups * uint(rows_a_tile), chunk = (at_once + 15u) / 16u * 16u, passes = (chunk + at_once - 1u) / at_once;
  const uint steps = (units + lanes - 1u) / lanes;
  for (uint first = gl_WorkGroupID.x * chunk; first < p.n; first += gl_NumWorkGroups.x * chunk) {
    for (uint pass = 0u; pass < passes; ++pass) {
      const uint local = (pass * gl_NumSubgroups + gl_SubgroupID) * uint(rows_a_tile), tile = first + local;
      if (local >= chunk || tile >= p.n) continue;
      PackedUnit next[rows_at_once];
#define LOAD(unit_)                                                                                                                     \
  if ((unit_) < units) {                                                                                                                \
    [[unroll]] for (int r = 0; r < rows_at_once; ++r) {                                                                                 \
      const uint64_t row = uint64_t(paired != 0 ? tile : min(tile + uint(r), p.n - 1u));                                                \
      if (paired != 0 && r == 1) next[r] = load_unit(format, p.other_b + row * uint64_t(row_bytes), other_planes, row * uint64_t(row_blocks), unit_); \
      else next[r] = load_unit(format, p.b + row * uint64_t(row_bytes), planes, row * uint64_t(row_blocks), unit_);                     \
    }                                                                                                                                   \
  }
      LOAD(lane)
      // What the end needs is asked for now.
      const uint mine = min(tile + min(lane, uint(rows_a_tile) - 1u), p.n - 1u);
      float added = 0.0, weight = 1.0, squares = 0.0;
      if (p.c != 0ul) added = Float(p.c + uint64_t(mine) * 4ul).v;
      if (p.bias != 0ul) added += load_packed(p.bias, p.bias_dtype, mine);
      if (makes == 2) weight = Float(p.next_weight + uint64_t(mine) * 4ul).v + p.next_offset;
      if (normed != 0)
        for (uint i = lane; i < uint(k) / 16u; i += lanes) squares += Float(squares_of(p.a, uint(k), i)).v;
      float sum[rows_at_once];
      [[unroll]] for (int r = 0; r < rows_at_once; ++r) sum[r] = 0.0;
      for (uint step = 0u; step < steps; ++step) {
        const uint unit = step * lanes + lane;
        const PackedUnit now[rows_at_once] = next;
        LOAD(unit + lanes)
        if (unit >= units) continue;
        uvec4 code[4];
        vec2 scale[4];
        [[unroll]] for (uint g = 0u; g < 4u; ++g) {
          const uint at = group_begin(format, unit, g);
          code[g] = words_at(codes_of(p.a, uint(k), 0u, at));
          scale[g] = FloatPair(scales_of(p.a, 1u, uint(k), 0u, at)).v;
        }
        [[unroll]] for (int r = 0; r < rows_at_once; ++r) {
          const Unit w = decode_unit(format, now[r], unit);
          [[unroll]] for (uint g = 0u; g < 4u; ++g)
            sum[r] = fma(w.f[g], scale[g].x * float(dot16(w.code[g], code[g])), fma(w.m[g], scale[g].y, sum[r]));
        }
      }
      float factor = 1.0;
      if (normed != 0) factor = 1.0 / sqrt(subgroupAdd(squares) / float(k) + p.epsilon);
      float total[rows_at_once];
      [[unroll]] for (int r = 0; r < rows_at_once; ++r) total[r] = subgroupAdd(sum[r]) * factor;
      if (lane < uint(rows_a_tile)) {
        const uint j = tile + lane;
        float v = lane == 0u ? total[0] : total[1];
        if (paired != 0) v = total[0] * sigmoid_of(total[0]) * total[1];
        v += added;
        if (j < p.n) {
          Float(p.y + uint64_t(j) * 4ul).v = v;
          if (makes != 0) {
            result[local + lane] = v;
            weighted[local + lane] = v * weight;
          }
        }
      }
    }
    if (makes == 0) continue;
    barrier();
    FOR_EACH_LANE(group, chunk / 16u) {
      const uint begin = group * 16u;
      if (first + begin >= p.n) continue;
      Eight a, b;
      float squares = 0.0;
      for (uint i = 0u; i < 8u; ++i) {
        a.v[i / 4u][i % 4u] = weighted[begin + i];
        b.v[i / 4u][i % 4u] = weighted[begin + 8u + i];
        squares += result[begin + i] * result[begin + i] + result[begin + 8u + i] * result[begin + 8u + i];
      }
      store_sixteen(p.next, p.n, first + begin, a, b);
      if (makes == 2) Float(squares_of(p.next, p.n, (first + begin) / 16u)).v = squares;
    }
    barrier();
  }
}
