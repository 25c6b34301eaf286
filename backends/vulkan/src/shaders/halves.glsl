// Units of quantised weights (units.glsl) as f16, for matrices of f16. A row's weights times a power of two, so that the largest that its
// scales allow is below 2^15: f16 then neither overflows nor loses more than its last bit of what counts.
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

/// Whether codes are signed; the others are 0 to 31.
bool has_signed_codes(const int format) { return format == Q8_0 || format == Q6_K; }
bool has_minimums(const int format) { return format != Q8_0 && format != Q6_K; }

/// A bound of what weights can be from the scales of their block, the first word of canonical Q4_K and Q5_K and of a plane of two scales.
float bound_of(const int format, uint pair) {
  const float d = abs(half_to_float(pair & 0xffffu)), m = abs(half_to_float(pair >> 16));
  if (format == Q4_K) return max(d * 945.0, m * 63.0);
  if (format == Q5_K) return max(d * 1953.0, m * 63.0);
  if (format == Q4_1) return max(d * 15.0, m);
  return max(d * 31.0, m);  // Q5_1
}
/// The largest size that a block with this scale can hold, of formats without a second one.
float size_of_code(const int format) { return format == Q8_0 ? 128.0 : format == Q6_K ? 4096.0 : format == Q4_0 ? 8.0 : 16.0; }

float larger_size(float a, float b) { return is_nan(a) || b <= a ? a : b; }

/// A bound of the weights of blocks first .. last - 1 of a row; not finite where a scale is not.
float bound_of_blocks(const int format, uint64_t row, Planes planes, uint64_t block, uint first, uint last) {
  const uint at_once = 8u;
  float most = 0.0;
  if (format == Q4_K || format == Q5_K || format == Q4_1 || format == Q5_1) {
    for (uint b = first; b < last; b += at_once) {
      uint head[at_once];
      [[unroll]] for (uint i = 0u; i < at_once; ++i) {
        const uint at = min(b + i, last - 1u);
        head[i] = Uint(format == Q4_K || format == Q5_K ? row + uint64_t(at * block_bytes(format)) : planes.small + (block + uint64_t(at)) * 4ul).v;
      }
      [[unroll]] for (uint i = 0u; i < at_once; ++i) most = larger_size(most, bound_of(format, head[i]));
    }
    return most;
  }
  uint largest = 0u;  // the bits of halves are in the order of sizes, what is not finite behind them
  uint b = first;
  if ((uint(block) + first) % 8u == 0u) {
    const uint fours = (last - first) / 8u;
    for (uint f = 0u; f < fours; f += at_once) {
      uvec4 scales[at_once];
      [[unroll]] for (uint i = 0u; i < at_once; ++i) scales[i] = Uint4(planes.small + (block + uint64_t(first + min(f + i, fours - 1u) * 8u)) * 2ul).v;
      [[unroll]] for (uint i = 0u; i < at_once; ++i) {
        const uvec4 low = scales[i] & 0x7fffu, high = scales[i] >> 16 & 0x7fffu, both = max(low, high);
        largest = max(largest, max(max(both.x, both.y), max(both.z, both.w)));
      }
    }
    b += fours * 8u;
  }
  for (; b < last; ++b) largest = max(largest, short_at(planes.small + (block + uint64_t(b)) * 2ul) & 0x7fffu);
  return half_to_float(largest) * size_of_code(format);
}

/// What a value whose size is at most `most` is multiplied by to be below 2^15, a power of two; NaN where `most` is not finite. The product
/// with `back` undoes it.
float fitting(float most, out float back) {
  const int e = clamp(int(floatBitsToUint(most) >> 23), 24, 254);
  back = e == 254 && !is_finite(most) ? NOT_A_NUMBER : uintBitsToFloat(uint(e - 14) << 23);
  return is_finite(most) ? uintBitsToFloat(uint(268 - e) << 23) : NOT_A_NUMBER;
}

/// Four bytes in the order of their elements, as two words of halves: f * code + m.
uvec2 halves_of(const int format, uint code, f16vec2 f, f16vec2 m) {
  if (has_signed_codes(format)) code ^= 0x80808080u;
  const float16_t zero = has_signed_codes(format) ? float16_t(1152.0) : float16_t(1024.0);  // 1024 + n is 0x6400 | n
  const f16vec2 even = unpackFloat2x16(code & 0x00ff00ffu | 0x64006400u) - f16vec2(zero);
  const f16vec2 odd = unpackFloat2x16(code >> 8 & 0x00ff00ffu | 0x64006400u) - f16vec2(zero);
  const uint a = packFloat2x16(has_minimums(format) ? fma(even, f, m) : even * f);
  const uint b = packFloat2x16(has_minimums(format) ? fma(odd, f, m) : odd * f);
  return uvec2(a & 0xffffu | b << 16, a >> 16 | b & 0xffff0000u);
}
