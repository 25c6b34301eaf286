// 64 elements of a row of quantised weights as signed bytes, read 16 bytes at a time: four groups of 16, each weight being f * code + m.
// Q4_K and Q5_K lie in their blocks, the others in planes (planes.glsl).
struct Unit {
  uvec4 code[4];
  vec4 f, m;
};

uvec4 words_at(uint64_t at) { return Uint4(at).v; }

/// Element of the row where group g of a unit begins.
uint group_begin(const int format, uint unit, uint g) {
  if (format == Q6_K) return unit / 4u * 256u + (unit >> 1 & 1u) * 128u + (unit & 1u) * 16u + 32u * g;
  return 64u * unit + 16u * g;
}

/// Four bits as the lowest bits of four bytes.
uint spread_bits(uint bits) { return bits * 0x00204081u & 0x01010101u; }
uvec4 spread_16(uint bits) { return uvec4(spread_bits(bits & 15u), spread_bits(bits >> 4 & 15u), spread_bits(bits >> 8 & 15u), spread_bits(bits >> 12 & 15u)); }
uvec4 low_nibbles(uvec4 q) { return q & 0x0f0f0f0fu; }
uvec4 high_nibbles(uvec4 q) { return q >> 4 & 0x0f0f0f0fu; }

/// `row`: of a canonical matrix; `block`: its first block in a packed one.
Unit open_unit(const int format, uint64_t row, Planes planes, uint64_t block, uint unit) {
  Unit u;
  if (format == Q4_K || format == Q5_K) {
    const uint64_t at = row + uint64_t(unit / 4u * block_bytes(format));
    const uint pair = unit % 4u, s = (pair & 1u) * 16u;
    const uvec4 head = words_at(at);
    const uvec4 a = words_at(at + (format == Q4_K ? 16u : 48u) + 32u * pair), b = words_at(at + (format == Q4_K ? 32u : 64u) + 32u * pair);
    u.code = uvec4[4](low_nibbles(a), low_nibbles(b), high_nibbles(a), high_nibbles(b));
    if (format == Q5_K) {
      const uvec4 c = words_at(at + 16u) >> 2u * pair, e = words_at(at + 32u) >> 2u * pair;
      u.code[0] |= (c & 0x01010101u) << 4;
      u.code[1] |= (e & 0x01010101u) << 4;
      u.code[2] |= (c & 0x02020202u) << 3;
      u.code[3] |= (e & 0x02020202u) << 3;
    }
    uvec2 scale = uvec2(head.y >> s, head.y >> s + 8u), minimum = uvec2(head.z >> s, head.z >> s + 8u);
    if (pair < 2u) {
      scale &= 63u;
      minimum &= 63u;
    } else {
      const uvec2 both = uvec2(head.w >> s, head.w >> s + 8u) & 255u;
      scale = (both & 15u) | (scale >> 6 & 3u) << 4;
      minimum = both >> 4 | (minimum >> 6 & 3u) << 4;
    }
    const float d = half_to_float(head.x & 0xffffu), least = half_to_float(head.x >> 16);
    u.f = d * vec4(scale.xx, scale.yy);
    u.m = -(least * vec4(minimum.xx, minimum.yy));
  } else if (format == Q6_K) {
    const uint64_t b = block + uint64_t(unit / 4u);
    const uint h = unit >> 1 & 1u, side = unit & 1u;
    const uint64_t at = planes.codes + b * 128ul + uint64_t(64u * h + 16u * side);
    const uvec4 low = words_at(at), other = words_at(at + 32ul), high = words_at(planes.high + b * 64ul + uint64_t(32u * h + 16u * side));
    UintPair scales = UintPair(planes.scales + b * 16ul + uint64_t(8u * h));
    const uvec2 bytes = uvec2(scales.a, scales.b) >> 8u * side;
    u.code[0] = low_nibbles(low) | (high & 0x03030303u) << 4;
    u.code[1] = low_nibbles(other) | (high & 0x0c0c0c0cu) << 2;
    u.code[2] = high_nibbles(low) | (high & 0x30303030u);
    u.code[3] = high_nibbles(other) | (high >> 2 & 0x30303030u);
    for (int g = 0; g < 4; ++g) u.code[g] = ((u.code[g] | 0x80808080u) - 0x20202020u) ^ 0x80808080u;  // each byte less 32
    u.f = scale_at(planes.small + b * 2ul) * vec4(signed_byte(bytes.x), signed_byte(bytes.x >> 16), signed_byte(bytes.y), signed_byte(bytes.y >> 16));
    u.m = vec4(0.0);
  } else {
    const uint64_t b = block + uint64_t(2u * unit);
    const bool minimum = format == Q4_1 || format == Q5_1;
    if (minimum) {
      UintPair pairs = UintPair(planes.small + b * 4ul);
      u.f = vec4(vec2(half_to_float(pairs.a & 0xffffu)), vec2(half_to_float(pairs.b & 0xffffu)));
      u.m = vec4(vec2(half_to_float(pairs.a >> 16)), vec2(half_to_float(pairs.b >> 16)));
    } else {
      const uint both = Uint(planes.small + b * 2ul).v;
      u.f = vec4(vec2(half_to_float(both & 0xffffu)), vec2(half_to_float(both >> 16)));
      u.m = format == Q8_0 ? vec4(0.0) : (format == Q4_0 ? -8.0 : -16.0) * u.f;
    }
    if (format == Q8_0) {
      const uint64_t at = planes.codes + b * 32ul;
      u.code = uvec4[4](words_at(at), words_at(at + 16ul), words_at(at + 32ul), words_at(at + 48ul));
    } else {
      const uvec4 first = words_at(planes.codes + b * 16ul), second = words_at(planes.codes + b * 16ul + 16ul);
      u.code = uvec4[4](low_nibbles(first), high_nibbles(first), low_nibbles(second), high_nibbles(second));
      if (format == Q5_0 || format == Q5_1) {
        UintPair bits = UintPair(planes.high + b * 4ul);
        u.code[0] |= spread_16(bits.a) << 4;
        u.code[1] |= spread_16(bits.a >> 16) << 4;
        u.code[2] |= spread_16(bits.b) << 4;
        u.code[3] |= spread_16(bits.b >> 16) << 4;
      }
    }
  }
  return u;
}
