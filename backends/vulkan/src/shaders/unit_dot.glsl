// The product of a unit of weights (units.glsl) and 64 activations, in as few instructions as its format allows: sums of codes are whole numbers
// up to the scales of 32 neighbours, or of 16 where SCALES_OF_16 is defined (the activations' scales may then differ from 16 to 16), codes that begin at -8, -16 or -32 stay as they lie, their share being a sum of the activations' codes.

/// The activations of a unit: codes of 16 neighbours each, their scale, that times the sum of their codes; what codes that begin below 0 add.
struct UnitRow {
  uvec4 code[4];
  vec2 scale[4];
  int share[4];
};
uint bytes_of_begin(const int format) { return format == Q4_0 ? 0xf8f8f8f8u : format == Q5_0 ? 0xf0f0f0f0u : 0xe0e0e0e0u; }
bool begins_below(const int format) { return format == Q4_0 || format == Q5_0 || format == Q6_K; }

uvec4 fifth_bits(uint bits) { return spread_16(bits) << 4; }
/// Both halves of a word; the driver's conversion is exact where this is used, subnormals included.
vec2 two_halves(uint word) { return unpackHalf2x16(word); }

/// The sum so far and what a unit adds to it.
float add_unit(const int format, PackedUnit u, uint unit, UnitRow row, float sum) {
  if (format == Q4_K || format == Q5_K) {
    const uint pair = unit & 3u, s = (pair & 1u) * 16u;
    const uint low = u.head.y >> s, least = u.head.z >> s, high = u.head.w >> s;
    const uint scale = pair < 2u ? low & 0x3f3fu : (high & 0x0f0fu) | (low >> 2 & 0x3030u);
    const uint minimum = pair < 2u ? least & 0x3f3fu : (high >> 4 & 0x0f0fu) | (least >> 2 & 0x3030u);
    uvec4 code[4] = uvec4[4](low_nibbles(u.q[0]), low_nibbles(u.q[1]), high_nibbles(u.q[0]), high_nibbles(u.q[1]));
    if (format == Q5_K) {
      const uvec4 c = u.q[2] >> 2u * pair, e = u.q[3] >> 2u * pair;
      code[0] |= c << 4 & 0x10101010u;
      code[1] |= e << 4 & 0x10101010u;
      code[2] |= c << 3 & 0x10101010u;
      code[3] |= e << 3 & 0x10101010u;
    }
    const vec2 d = two_halves(u.head.x);
#ifdef SCALES_OF_16
    const float first = fma(row.scale[1].x, float(dot16(code[1], row.code[1])), row.scale[0].x * float(dot16(code[0], row.code[0])));
    const float second = fma(row.scale[3].x, float(dot16(code[3], row.code[3])), row.scale[2].x * float(dot16(code[2], row.code[2])));
    const float of_codes = fma(float(scale >> 8), second, float(scale & 255u) * first);
#else
    const int first = int(scale & 255u) * (dot16(code[0], row.code[0]) + dot16(code[1], row.code[1]));
    const int second = int(scale >> 8) * (dot16(code[2], row.code[2]) + dot16(code[3], row.code[3]));
    const float of_codes = fma(row.scale[2].x, float(second), row.scale[0].x * float(first));
#endif
    const float of_minima = fma(float(minimum >> 8), row.scale[2].y + row.scale[3].y, float(minimum & 255u) * (row.scale[0].y + row.scale[1].y));
    return fma(d.x, of_codes, fma(-d.y, of_minima, sum));
  }
  if (format == Q6_K) {
    const uint s = 8u * (unit & 1u);
    const uvec2 bytes = u.head.xy >> s;
    const uvec4 high = u.q[2];
    const uvec4 code[4] = uvec4[4](low_nibbles(u.q[0]) | (high << 4 & 0x30303030u), low_nibbles(u.q[1]) | (high << 2 & 0x30303030u), high_nibbles(u.q[0]) | (high & 0x30303030u),
                                   high_nibbles(u.q[1]) | (high >> 2 & 0x30303030u));
    const int factor[4] = int[4](signed_byte(bytes.x), signed_byte(bytes.x >> 16), signed_byte(bytes.y), signed_byte(bytes.y >> 16));
    float part = 0.0;
    [[unroll]] for (uint g = 0u; g < 4u; ++g) part = fma(row.scale[g].x, float(factor[g] * (row.share[g] + dot16(code[g], row.code[g]))), part);
    return fma(two_halves(u.head.z).x, part, sum);
  }
  uvec4 code[4];
  if (is_group(format)) {
    group_codes(format, u, code);
#ifdef SCALES_OF_16
    const vec2 dots = vec2(fma(row.scale[1].x, float(dot16(code[1], row.code[1])), row.scale[0].x * float(dot16(code[0], row.code[0]))),
                           fma(row.scale[3].x, float(dot16(code[3], row.code[3])), row.scale[2].x * float(dot16(code[2], row.code[2]))));
#else
    const vec2 dots = vec2(row.scale[0].x * float(dot16(code[0], row.code[0]) + dot16(code[1], row.code[1])),
                           row.scale[2].x * float(dot16(code[2], row.code[2]) + dot16(code[3], row.code[3])));
#endif
    const vec2 sums = vec2(row.scale[0].y + row.scale[1].y, row.scale[2].y + row.scale[3].y), zero = vec2(zero_of_codes(format, u.head.x), zero_of_codes(format, u.head.y));
    if (group_elements(format) > 32u) return fma(word_scale(format, u.head.x), fma(-zero.x, sums.x + sums.y, dots.x + dots.y), sum);
    return fma(word_scale(format, u.head.y), fma(-zero.y, sums.y, dots.y), fma(word_scale(format, u.head.x), fma(-zero.x, sums.x, dots.x), sum));
  }
  if (format == Q8_0) {
    code = u.q;
  } else {
    code = uvec4[4](low_nibbles(u.q[0]), high_nibbles(u.q[0]), low_nibbles(u.q[1]), high_nibbles(u.q[1]));
    if (format == Q5_0 || format == Q5_1) {
      code[0] |= fifth_bits(u.head.z);
      code[1] |= fifth_bits(u.head.z >> 16);
      code[2] |= fifth_bits(u.head.w);
      code[3] |= fifth_bits(u.head.w >> 16);
    }
  }
  const bool minima = format == Q4_1 || format == Q5_1;
  const vec2 one = two_halves(u.head.x), other = two_halves(u.head.y);
#ifdef SCALES_OF_16
  int dots[4];
  [[unroll]] for (int g = 0; g < 4; ++g) dots[g] = dot16(code[g], row.code[g]) + (begins_below(format) ? row.share[g] : 0);
  sum = fma(one.x, fma(row.scale[1].x, float(dots[1]), row.scale[0].x * float(dots[0])), sum);
  if (minima) sum = fma(one.y, row.scale[0].y + row.scale[1].y, sum);
  sum = fma(minima ? other.x : one.y, fma(row.scale[3].x, float(dots[3]), row.scale[2].x * float(dots[2])), sum);
  if (minima) sum = fma(other.y, row.scale[2].y + row.scale[3].y, sum);
  return sum;
#else
  int first = dot16(code[0], row.code[0]) + dot16(code[1], row.code[1]), second = dot16(code[2], row.code[2]) + dot16(code[3], row.code[3]);
  if (begins_below(format)) {
    first += row.share[0] + row.share[1];
    second += row.share[2] + row.share[3];
  }
  sum = fma(one.x * row.scale[0].x, float(first), sum);
  if (minima) sum = fma(one.y, row.scale[0].y + row.scale[1].y, sum);
  sum = fma((minima ? other.x : one.y) * row.scale[2].x, float(second), sum);
  if (minima) sum = fma(other.y, row.scale[2].y + row.scale[3].y, sum);
  return sum;
#endif
}
