#version 460
// gemm.comp of 2 to 64 rows of a and weights of Q4_K, Q5_K and Q6_K: a lane makes its part of left matrices from the codes that it loads, in
// registers. Codes times their sub-block's scale are whole numbers that f16 has (of Q6_K those beyond 2048 are rounded once); the block's scale
// multiplies sums, in f32, so a row's range does not matter. Minimums are one matrix a block: they times the activations' sums over sub-blocks,
// each in two halves of f16.
//
//   workgroup  16 * `tiles` rows of b; its subgroups take turns by blocks of 256, sums are added at the end in their order
//   lane       4 g + t has of a left matrix rows g and g + 8, of a right one columns g and g + 8, and of k what t has in both: elements 8 t + 4 s
//              of 32 neighbours, in the order 0, 2, 1, 3 (rows_f16.comp); the host asks for this kernel only where a driver's matrices lie so
//
// Constants: 1 format of b; 2 eights of rows of a; 3 tiles; 4 subgroups.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#pragma use_vulkan_memory_model
#include "memory.glsl"
#include "params_matrices.h"
#include "blocks.glsl"
#include "planes.glsl"
#include "eights.glsl"
layout(constant_id = 1) const int format = Q4_K;
layout(constant_id = 2) const uint eights = 1;
layout(constant_id = 3) const uint tiles = 1;
layout(constant_id = 4) const uint subgroups = 8;
PUSHED(GemmParams)
#include "finish.glsl"
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Uint2 { uvec2 v; };
const uint columns = (eights + 1) / 2, rows_b = 16 * tiles, row_floats = rows_b + 4;
const bool has_minimums_ = format != Q6_K;

shared vec4 sums[subgroups * eights * 8 * row_floats / 4];

/// 64 codes of a row, those of a lane: four words a half block, and what its scales are made of.
struct Part {
  uvec2 q[8];  // Q4_K: q[p]: of sub-blocks 2 p and 2 p + 1. Q6_K: of half h: 3 h + 0, 1 low bits, 2 high bits
  uvec4 head;
  uvec2 high;  // Q5_K
};
uvec2 pair_at(uint64_t at) { return Uint2(at).v; }
Part load_part(uint64_t row, Planes planes, uint64_t block, uint b, uint t) {
  Part part;
  part.head = uvec4(0u);
  part.high = uvec2(0u);
  if (format == Q6_K) {
    const uint64_t n = block + uint64_t(b), codes = planes.codes + n * 128ul + uint64_t(8u * t), high = planes.high + n * 64ul + uint64_t(8u * t);
    [[unroll]] for (uint h = 0; h < 2u; ++h) {
      part.q[3u * h] = pair_at(codes + uint64_t(64u * h));
      part.q[3u * h + 1u] = pair_at(codes + uint64_t(64u * h + 32u));
      part.q[3u * h + 2u] = pair_at(high + uint64_t(32u * h));
    }
    part.q[6] = part.q[7] = uvec2(0u);
    part.head = Uint4(planes.scales + n * 16ul).v;
    part.high.x = short_at(planes.small + n * 2ul);
  } else {
    const uint64_t at = row + uint64_t(b * block_bytes(format)), codes = at + uint64_t((format == Q4_K ? 16u : 48u) + 8u * t);
    part.head = Uint4(at).v;
    [[unroll]] for (uint i = 0; i < 4u; ++i) part.q[i] = pair_at(codes + uint64_t(32u * i));
    [[unroll]] for (uint i = 4; i < 8u; ++i) part.q[i] = uvec2(0u);
    if (format == Q5_K) part.high = pair_at(at + uint64_t(16u + 8u * t));
  }
  return part;
}

f16vec2 twice(uint byte_) { return unpackFloat2x16(byte_ * 0x10001u | 0x64006400u) - f16vec2(float16_t(1024.0)); }

/// Scales (and minimums) of the eight sub-blocks of 32, a byte each.
uvec2 scale_bytes(uvec4 head) { return uvec2(head.y & 0x3f3f3f3fu, (head.w & 0x0f0f0f0fu) | (head.y >> 2 & 0x30303030u)); }
uvec2 minimum_bytes(uvec4 head) { return uvec2(head.z & 0x3f3f3f3fu, (head.w >> 4 & 0x0f0f0f0fu) | (head.z >> 2 & 0x30303030u)); }

/// Codes 4 s .. 4 s + 3 of a lane's eight of 32 neighbours `group`, times their scale.
void four_of(const Part part, uvec2 scales, const uint group, const uint s, uint t, out f16vec2 even, out f16vec2 odd) {
  if (format == Q6_K) {
    const uint h = group / 4u, quarter = group % 4u;
    const uint low = part.q[3u * h + quarter % 2u][s] >> 4u * (quarter / 2u), high = part.q[3u * h + 2u][s] >> 2u * quarter;
    const uint w = low & 0x0f0f0f0fu | (high & 0x03030303u) << 4;
    const int scale = bitfieldExtract(int(part.head[2u * h + quarter / 2u]), int(8u * (2u * (quarter % 2u) + t / 2u)), 8);
    const f16vec2 f = f16vec2(float16_t(scale)), zero = f16vec2(float16_t(1056.0));
    even = (unpackFloat2x16(w & 0x00ff00ffu | 0x64006400u) - zero) * f;
    odd = (unpackFloat2x16(w >> 8 & 0x00ff00ffu | 0x64006400u) - zero) * f;
    return;
  }
  const f16vec2 f = twice(bitfieldExtract(scales[group / 4u], int(8u * (group % 4u)), 8)), zero = f16vec2(float16_t(1024.0));
  const uint w = part.q[group / 2u][s] >> 4u * (group % 2u);
  uint e = w & 0x000f000fu, o = w >> 8 & 0x000f000fu;
  if (format == Q5_K) {
    const uint bits = part.high[s] >> group;
    e |= (bits & 0x00010001u) << 4;
    o |= (bits >> 8 & 0x00010001u) << 4;
  }
  even = (unpackFloat2x16(e | 0x64006400u) - zero) * f;
  odd = (unpackFloat2x16(o | 0x64006400u) - zero) * f;
}

#define LEFT coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>
#define RIGHT coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB>
#define SUMS coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>

/// A right matrix from what a lane has of columns g and g + 8, two words each.
RIGHT right_of(uvec2 a, uvec2 b) {
  RIGHT right;
  [[unroll]] for (uint i = 0; i < 2u; ++i) {
    const f16vec2 x = unpackFloat2x16(a[i]), y = unpackFloat2x16(b[i]);
    right[2 * i] = x.x;
    right[2 * i + 1] = x.y;
    right[4 + 2 * i] = y.x;
    right[4 + 2 * i + 1] = y.y;
  }
  return right;
}
LEFT left_of(f16vec2 a, f16vec2 b, f16vec2 c, f16vec2 d) {
  LEFT left;
  left[0] = a.x;
  left[1] = a.y;
  left[2] = b.x;
  left[3] = b.y;
  left[4] = c.x;
  left[5] = c.y;
  left[6] = d.x;
  left[7] = d.y;
  return left;
}

void main() {
  const uint part = gl_SubgroupID, lane = gl_SubgroupInvocationID, g = lane / 4u, t = lane % 4u;
  const uint first = gl_WorkGroupID.x * rows_b, blocks = p.k / 256u, groups = p.k / 32u;
  const Planes planes = planes_at(p.b, format, uint64_t(p.n) * uint64_t(blocks));
  const uint64_t a_lane = p.a + uint64_t(lane * 16u), sums_lane = p.a + eights_sums_offset(p.m, p.k) + uint64_t(lane * 8u);

  float total[tiles * columns * 8];
  [[unroll]] for (uint i = 0; i < tiles * columns * 8; ++i) total[i] = 0.0;
  for (uint b = part; b < blocks; b += subgroups) {
    Part rows[tiles * 2];
    [[unroll]] for (uint r = 0; r < tiles * 2; ++r) {
      const uint64_t row = uint64_t(min(first + 8u * r + g, p.n - 1u));
      rows[r] = load_part(p.b + row * uint64_t(blocks * block_bytes(format)), planes, row * uint64_t(blocks), b, t);
    }
    [[unroll]] for (uint r = 0; r < tiles; ++r) {
      SUMS sum[columns];
      [[unroll]] for (uint j = 0; j < columns; ++j) sum[j] = SUMS(0.0);
      const uvec2 scales[2] = uvec2[2](scale_bytes(rows[2 * r].head), scale_bytes(rows[2 * r + 1].head));
      [[unroll]] for (uint group = 0; group < 8u; ++group) {
        uvec4 a[columns * 2];
        [[unroll]] for (uint e = 0; e < columns * 2; ++e) a[e] = e < eights ? Uint4(a_lane + uint64_t((e * groups + 8u * b + group) * 512u)).v : uvec4(0u);
        [[unroll]] for (uint s = 0; s < 2u; ++s) {
          f16vec2 w[4];
          four_of(rows[2 * r], scales[0], group, s, t, w[0], w[1]);
          four_of(rows[2 * r + 1], scales[1], group, s, t, w[2], w[3]);
          const LEFT left = left_of(w[0], w[1], w[2], w[3]);
          [[unroll]] for (uint j = 0; j < columns; ++j)
            sum[j] = coopMatMulAdd(left, right_of(s == 0u ? a[2 * j].xy : a[2 * j].zw, s == 0u ? a[2 * j + 1].xy : a[2 * j + 1].zw), sum[j]);
        }
      }
      float d[2], least[2];
      [[unroll]] for (uint i = 0; i < 2u; ++i) {
        const Part from = rows[2 * r + i];
        d[i] = half_to_float(format == Q6_K ? from.high.x : from.head.x & 0xffffu);
        least[i] = half_to_float(from.head.x >> 16);
      }
      [[unroll]] for (uint j = 0; j < columns; ++j)
        [[unroll]] for (uint i = 0; i < 8u; ++i) total[(r * columns + j) * 8u + i] += d[i / 4u] * sum[j][i];
      if (has_minimums_) {
        f16vec2 m[4];
        [[unroll]] for (uint i = 0; i < 2u; ++i) {
          const uvec2 bytes = minimum_bytes(rows[2 * r + i].head);
          const uint both = (t < 2u ? bytes.x : bytes.y) >> 16u * (t & 1u);
          m[2 * i] = twice(both & 255u);
          m[2 * i + 1] = twice(both >> 8 & 255u);
        }
        const LEFT left = left_of(m[0], m[1], m[2], m[3]);
        [[unroll]] for (uint j = 0; j < columns; ++j) {
          uvec2 x[2];
          [[unroll]] for (uint e = 0; e < 2u; ++e) x[e] = 2 * j + e < eights ? pair_at(sums_lane + uint64_t(((2 * j + e) * blocks + b) * 256u)) : uvec2(0u);
          const SUMS below = coopMatMulAdd(left, right_of(x[0], x[1]), SUMS(0.0));
          [[unroll]] for (uint i = 0; i < 8u; ++i) total[(r * columns + j) * 8u + i] -= eights_sum_unit * least[i / 4u] * below[i];
        }
      }
    }
  }
  [[unroll]] for (uint r = 0; r < tiles; ++r)
    [[unroll]] for (uint j = 0; j < columns; ++j)
      [[unroll]] for (uint i = 0; i < 8u; ++i) {
        const uint row = 16u * j + 2u * t + i % 2u + i / 2u % 2u * 8u, column = 16u * r + g + i / 4u * 8u;
        if (row < eights * 8u) sums[((part * eights * 8u + row) * row_floats + column) / 4u][column % 4u] = total[(r * columns + j) * 8u + i];
      }
  barrier();
  for (uint e = gl_LocalInvocationID.x; e < eights * 8u * (rows_b / 4u); e += gl_WorkGroupSize.x) {
    const uint row = e / (rows_b / 4u), c = e % (rows_b / 4u) * 4u, column = first + c;
    if (row >= p.m || column >= p.n) continue;
    vec4 v = vec4(0.0);
    for (uint s = 0; s < subgroups; ++s) v += sums[((s * eights * 8u + row) * row_floats + c) / 4u];
    finish_four(row, column, v * Float(p.row_scale + uint64_t(row) * 4ul).v);
  }
}
