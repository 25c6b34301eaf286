// Units of quantised weights (units.glsl) as f16, for matrices of f16. A row's weights times a power of two, so that the largest that its
// scales allow is below 2^15: f16 then neither overflows nor loses more than its last bit of what counts.
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "whole_scales.glsl"

/// Whether codes are signed; the others are 0 to 31.
bool has_signed_codes(const int format) { return format == Q8_0 || format == Q6_K || (is_group(format) && !has_nibbles(format)); }
/// Whether a scale is no f16, or a minimum is added.
bool has_minimums(const int format) { return format != Q8_0 && format != Q6_K; }

/// A bound of what weights can be from the scales of their block, the first word of canonical Q4_K and Q5_K and of a plane of words.
float bound_of(const int format, uint pair) {
  if (is_group(format)) return word_bound(format, pair);
  const float d = abs(half_to_float(pair & 0xffffu)), m = abs(half_to_float(pair >> 16));
  if (format == Q4_K) return max(d * 945.0, m * 63.0);
  if (format == Q5_K) return max(d * 1953.0, m * 63.0);
  if (format == Q4_1) return max(d * 15.0, m);
  return max(d * 31.0, m);  // Q5_1
}
/// The largest size that a block with this scale can hold, of formats without a second one.
float size_of_code(const int format) { return format == Q8_0 ? 128.0 : format == Q6_K ? 4096.0 : format == Q4_0 ? 8.0 : 16.0; }

/// Of the weights of blocks: a bound of the largest, not finite where a scale is not, and of the smallest block's that is not all zeros.
struct Bounds {
  float most, least;
};
Bounds with_bound(Bounds b, float next) {
  b.most = is_nan(next) || b.most <= next ? next : b.most;
  if (next > 0.0) b.least = min(b.least, next);
  return b;
}
/// Whether f16 has not the range for weights of these bounds: those of the smallest block would lose bits that a sum may consist of.
bool is_wide(Bounds b) { return b.least < b.most * 1.52587890625e-5; }  // 2^-16: of the largest, below 2^15, and 2^10 between codes of a block

/// Of blocks first .. last - 1 of a row.
Bounds bounds_of_blocks(const int format, uint64_t row, Planes planes, uint64_t block, uint first, uint last) {
  const uint at_once = 8u;
  Bounds found = Bounds(0.0, INFINITY);
  if (format == Q4_K || format == Q5_K || format == Q4_1 || format == Q5_1 || is_group(format)) {
    for (uint b = first; b < last; b += at_once) {
      uint head[at_once];
      [[unroll]] for (uint i = 0u; i < at_once; ++i) {
        const uint at = min(b + i, last - 1u);
        head[i] = Uint(format == Q4_K || format == Q5_K ? row + uint64_t(at * block_bytes(format)) : planes.small + (block + uint64_t(at)) * 4ul).v;
      }
      [[unroll]] for (uint i = 0u; i < at_once; ++i) found = with_bound(found, bound_of(format, head[i]));
    }
    if (format == F8_128) found.least *= 0.00390625;  // 2^-8: there are 2^18 between its codes
    return found;
  }
  uint largest = 0u, smallest = 0xffffffffu;  // the bits of halves are in the order of sizes, what is not finite behind them; 0 less 1 is the most
  uint b = first;
  if ((uint(block) + first) % 8u == 0u) {
    const uint fours = (last - first) / 8u;
    for (uint f = 0u; f < fours; f += at_once) {
      uvec4 scales[at_once];
      [[unroll]] for (uint i = 0u; i < at_once; ++i) scales[i] = Uint4(planes.small + (block + uint64_t(first + min(f + i, fours - 1u) * 8u)) * 2ul).v;
      [[unroll]] for (uint i = 0u; i < at_once; ++i) {
        const uvec4 low = scales[i] & 0x7fffu, high = scales[i] >> 16 & 0x7fffu, both = max(low, high), least = min(low - 1u, high - 1u);
        largest = max(largest, max(max(both.x, both.y), max(both.z, both.w)));
        smallest = min(smallest, min(min(least.x, least.y), min(least.z, least.w)));
      }
    }
    b += fours * 8u;
  }
  for (; b < last; ++b) {
    const uint bits = short_at(planes.small + (block + uint64_t(b)) * 2ul) & 0x7fffu;
    largest = max(largest, bits);
    smallest = min(smallest, bits - 1u);
  }
  return Bounds(half_to_float(largest) * size_of_code(format), smallest == 0xffffffffu ? INFINITY : half_to_float(smallest + 1u) * size_of_code(format));
}

/// What a value whose size is at most `most` is multiplied by to be below 2^15, a power of two; NaN where `most` is not finite. The product
/// with `back` undoes it.
float fitting(float most, out float back) {
  const int e = clamp(int(floatBitsToUint(most) >> 23), 24, 254);
  back = e == 254 && !is_finite(most) ? NOT_A_NUMBER : uintBitsToFloat(uint(e - 14) << 23);
  return is_finite(most) ? uintBitsToFloat(uint(268 - e) << 23) : NOT_A_NUMBER;
}

/// The number of a table that a code stands for, by selection: lanes that look up different places of an array wait for each other.
float chosen(const float v[16], uint code) {
  const bool odd = (code & 1u) != 0u;
  const vec4 low = odd ? vec4(v[1], v[3], v[5], v[7]) : vec4(v[0], v[2], v[4], v[6]);
  const vec4 high = odd ? vec4(v[9], v[11], v[13], v[15]) : vec4(v[8], v[10], v[12], v[14]);
  const vec4 four = (code & 8u) != 0u ? high : low;
  const vec2 two = (code & 4u) != 0u ? four.zw : four.xy;
  return (code & 2u) != 0u ? two.y : two.x;
}
vec2 two_floats(const int format, uint bytes) {
  if (format == F8_128) return vec2(unpackFloat2x16(two_e4m3(bytes))) * 256.0;
  const uint low = bytes & 15u, high = bytes >> 16 & 15u;
  return format == NF4_64 ? vec2(chosen(nf4_values, low), chosen(nf4_values, high)) : vec2(chosen(fp4_values, low), chosen(fp4_values, high));
}

/// Four bytes as two words of halves, f * code + m: elements 0 and 2, 1 and 3. Activations lie in that order too (rows_f16.comp).
/// A minimum may be nearly all of f * code, so their sum is formed in f32.
uvec2 halves_of(const int format, uint code, float f, float m) {
  if (is_group(format) && has_float_codes(format))
    return uvec2(packFloat2x16(f16vec2(two_floats(format, code & 0x00ff00ffu) * f)), packFloat2x16(f16vec2(two_floats(format, code >> 8 & 0x00ff00ffu) * f)));
  if (has_signed_codes(format)) code ^= 0x80808080u;
  const f16vec2 zero = f16vec2(float16_t(has_signed_codes(format) ? 1152.0 : 1024.0));  // 1024 + n is 0x6400 | n
  const f16vec2 even = unpackFloat2x16(code & 0x00ff00ffu | 0x64006400u) - zero;
  const f16vec2 odd = unpackFloat2x16(code >> 8 & 0x00ff00ffu | 0x64006400u) - zero;
  if (!has_minimums(format)) return uvec2(packFloat2x16(even * f16vec2(float16_t(f))), packFloat2x16(odd * f16vec2(float16_t(f))));
  const vec2 a = vec2(even) * f + m, b = vec2(odd) * f + m;
  return uvec2(packFloat2x16(f16vec2(a)), packFloat2x16(f16vec2(b)));
}
