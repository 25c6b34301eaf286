#version 460
// Rows of f32 as rows of f16 for cooperative matrices (gemm.comp), a workgroup a row, eight neighbours a lane. A row is multiplied by a power
// of two that puts its largest element between 2^14 and 2^15, so that nothing overflows and what f16 rounds away of small elements is below
// 2^-38 of the largest. A row that holds what is not finite gets the scale NaN, and so all that reads it.
//
// A few rows are written as the right matrices that gemm_few.comp reads: those of one k after those of the k before, for each tile of rows,
// each lane's components side by side.
//
// For gemm_rows.comp they lie by eights (eights.glsl).
//
// Constant 1: what the row is, as in quantise.comp; 2: eights of a lane; 3: 1 where elements 1 and 2 of each four change places, as
// quantised weights have them (halves.glsl); 4, 5: rows and columns of right matrices, or 0; 6: 1 by eights.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "prelude.glsl"
#include "math.glsl"
#include "group.glsl"
#include "eights.glsl"
layout(constant_id = 1) const int mode = 0;
layout(constant_id = 2) const int eights = 1;
layout(constant_id = 3) const int permuted = 0;
layout(constant_id = 4) const uint size_k = 0;
layout(constant_id = 5) const uint size_n = 0;
layout(constant_id = 6) const int by_eights = 0;
PUSHED(RowsF16Params)
#define PLAIN 0
#define NORM 1
#define GLU 2

shared float eight_sums[gl_WorkGroupSize.x];

vec4 four_at(uint64_t row, uint i) { return Float4(row + uint64_t(i) * 4ul).v; }
float size_of(vec4 v) {
  const uvec4 bits = floatBitsToUint(v) & 0x7fffffffu;  // in the order of sizes, NaN is the largest
  return uintBitsToFloat(max(max(bits.x, bits.y), max(bits.z, bits.w)));
}
uvec2 four_halves(vec4 v) { return permuted != 0 ? uvec2(packHalf2x16(v.xz), packHalf2x16(v.yw)) : uvec2(packHalf2x16(v.xy), packHalf2x16(v.zw)); }

/// The sum of what words of halves hold.
float sum_of(uvec4 words) {
  float sum = 0.0;
  [[unroll]] for (int w = 0; w < 4; ++w) {
    const vec2 v = unpackHalf2x16(words[w]);
    sum += v.x + v.y;
  }
  return sum;
}

void main() {
  const uint lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x;
  FOR_EACH_ROW(row, p.rows) {
    const uint64_t x = p.x + uint64_t(int64_t(row) * p.x_row), other = p.other + uint64_t(int64_t(row) * p.other_row);
    vec4 v[2 * eights];
    float squares = 0.0;
    [[unroll]] for (int e = 0; e < 2 * eights; ++e) {
      const uint i = (lane + uint(e / 2) * lanes) * 8u + uint(e % 2) * 4u;
      v[e] = vec4(0.0);
      if (i >= p.k) continue;
      v[e] = four_at(x, i);
      if (mode == NORM) squares += dot(v[e], v[e]);
      if (mode == GLU) v[e] = vec4(v[e].x * sigmoid_of(v[e].x), v[e].y * sigmoid_of(v[e].y), v[e].z * sigmoid_of(v[e].z), v[e].w * sigmoid_of(v[e].w)) * four_at(other, i);
    }
    if (mode == NORM) {
      const float factor = 1.0 / sqrt(group_sum(squares) / float(p.k) + p.epsilon);
      [[unroll]] for (int e = 0; e < 2 * eights; ++e) {
        const uint i = (lane + uint(e / 2) * lanes) * 8u + uint(e % 2) * 4u;
        if (i < p.k) v[e] = v[e] * factor * (four_at(p.weight, i) + p.offset);
      }
    }
    uint largest = 0u;
    [[unroll]] for (int e = 0; e < 2 * eights; ++e) largest = max(largest, floatBitsToUint(size_of(v[e])));
    // Sizes are compared as numbers; what is not finite becomes the largest that there is.
    const float most = group_max(largest >= 0x7f800000u ? INFINITY : uintBitsToFloat(largest));
    const int exponent = clamp(int(floatBitsToUint(most) >> 23), 24, 254);
    const bool finite = is_finite(most);
    const float up = finite ? uintBitsToFloat(uint(268 - exponent) << 23) : 0.0;
    if (lane == 0u) Float(p.row_scale + uint64_t(row) * 4ul).v = finite ? uintBitsToFloat(uint(exponent - 14) << 23) : NOT_A_NUMBER;
    [[unroll]] for (int e = 0; e < eights; ++e) {
      const uint i = (lane + uint(e) * lanes) * 8u;
      if (i >= p.k && by_eights == 0) continue;
      const vec4 a = finite ? v[2 * e] * up : vec4(0.0), b = finite ? v[2 * e + 1] * up : vec4(0.0);
      const uvec4 words = uvec4(four_halves(a), four_halves(b));
      if (by_eights != 0) {
        const uint group = i / 32u, eight = row / 8u, place = row % 8u * 4u;
        if (i < p.k) Uint4(p.y + (uint64_t(eight) * uint64_t(p.k / 32u) + uint64_t(group)) * 512ul + uint64_t((place + i / 8u % 4u) * 16u)).v = words;
        eight_sums[lane] = sum_of(words);
        barrier();
        if (i < p.k && (lane & 3u) == 0u) {
          const float sum = (eight_sums[lane] + eight_sums[lane + 1u] + eight_sums[lane + 2u] + eight_sums[lane + 3u]) / eights_sum_unit;
          const float most = unpackHalf2x16(packHalf2x16(vec2(sum, 0.0))).x;
          const uint64_t sums = p.y + eights_sums_offset(p.rows, p.k) + (uint64_t(eight) * uint64_t(p.k / 256u) + uint64_t(group / 8u)) * 256ul;
          Uint(sums + uint64_t((place + group % 8u / 2u) * 8u + group % 2u * 4u)).v = packHalf2x16(vec2(most, sum - most));
        }
        barrier();
        continue;
      }
      if (size_n == 0u) {
        Uint4(p.y + (uint64_t(row) * uint64_t(p.k) + uint64_t(i)) * 2ul).v = words;
        continue;
      }
      const uint matrix = row / size_n * (p.k / size_k) + i / size_k, element = i % size_k * size_n + row % size_n;
      const uint64_t y = p.y + uint64_t(matrix) * uint64_t(size_k * size_n * 2u);
      [[unroll]] for (uint h = 0u; h < 8u; ++h)
        Short(y + uint64_t(Uint(p.places + uint64_t(element + h * size_n) * 4ul).v * 2u)).v = uint16_t(words[h / 2u] >> 16u * (h & 1u));
    }
  }
}
