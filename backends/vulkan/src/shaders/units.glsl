// 64 elements of a row of quantised weights as signed bytes, read 16 bytes at a time: four groups of 16, each weight being f * code + m.
// Q4_K and Q5_K lie in their blocks, the others in planes (planes.glsl). Codes of F8_128, NF4_64 and FP4_64 stand for floats: no signed bytes.
struct Unit {
  uvec4 code[4];
  vec4 f, m;
};
/// The same as it lies in memory: loads can be under way while something else is computed.
struct PackedUnit {
  uvec4 q[4], head;
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
PackedUnit load_unit(const int format, uint64_t row, Planes planes, uint64_t block, uint unit) {
  PackedUnit u;
  u.q = uvec4[4](uvec4(0u), uvec4(0u), uvec4(0u), uvec4(0u));
  u.head = uvec4(0u);
  if (format == Q4_K || format == Q5_K) {
    const uint64_t at = row + uint64_t(unit / 4u * block_bytes(format)), codes = at + (format == Q4_K ? 16u : 48u) + 32u * (unit % 4u);
    u.head = words_at(at);
    u.q[0] = words_at(codes);
    u.q[1] = words_at(codes + 16ul);
    if (format == Q5_K) {
      u.q[2] = words_at(at + 16ul);
      u.q[3] = words_at(at + 32ul);
    }
  } else if (format == Q6_K) {
    const uint64_t b = block + uint64_t(unit / 4u);
    const uint h = unit >> 1 & 1u, side = unit & 1u;
    const uint64_t at = planes.codes + b * 128ul + uint64_t(64u * h + 16u * side);
    u.q[0] = words_at(at);
    u.q[1] = words_at(at + 32ul);
    u.q[2] = words_at(planes.high + b * 64ul + uint64_t(32u * h + 16u * side));
    UintPair scales = UintPair(planes.scales + b * 16ul + uint64_t(8u * h));
    u.head.xy = uvec2(scales.a, scales.b);
    u.head.z = short_at(planes.small + b * 2ul);
  } else if (is_group(format)) {
    const uint64_t codes = planes.codes + block * uint64_t(plane_bytes(format).y), words = planes.small + (block + uint64_t(64u * unit / group_elements(format))) * 4ul;
    if (group_elements(format) == 32u) {
      UintPair two = UintPair(words);
      u.head.xy = uvec2(two.a, two.b);
    } else {
      u.head.xy = uvec2(Uint(words).v);
    }
    if (has_nibbles(format)) {
      const uint64_t at = codes + uint64_t(32u * unit);
      u.q[0] = words_at(at);
      u.q[1] = words_at(at + 16ul);
    } else {
      const uint64_t at = codes + uint64_t(64u * unit);
      u.q = uvec4[4](words_at(at), words_at(at + 16ul), words_at(at + 32ul), words_at(at + 48ul));
    }
  } else {
    const uint64_t b = block + uint64_t(2u * unit);
    if (format == Q4_1 || format == Q5_1) {
      UintPair pairs = UintPair(planes.small + b * 4ul);
      u.head.xy = uvec2(pairs.a, pairs.b);
    } else {
      u.head.x = Uint(planes.small + b * 2ul).v;
    }
    if (format == Q8_0) {
      const uint64_t at = planes.codes + b * 32ul;
      u.q = uvec4[4](words_at(at), words_at(at + 16ul), words_at(at + 32ul), words_at(at + 48ul));
    } else {
      u.q[0] = words_at(planes.codes + b * 16ul);
      u.q[1] = words_at(planes.codes + b * 16ul + 16ul);
      if (format == Q5_0 || format == Q5_1) {
        UintPair bits = UintPair(planes.high + b * 4ul);
        u.head.zw = uvec2(bits.a, bits.b);
      }
    }
  }
  return u;
}

/// The codes of a unit whose format is of groups: whole numbers as signed bytes, floats as they lie. Codes of eight bits with a zero point are 128 less.
void group_codes(const int format, const PackedUnit from, out uvec4 code[4]) {
  if (has_nibbles(format)) code = uvec4[4](low_nibbles(from.q[0]), high_nibbles(from.q[0]), low_nibbles(from.q[1]), high_nibbles(from.q[1]));
  else code = from.q;
  if (!has_nibbles(format) && has_zero_point(format)) {
    for (int g = 0; g < 4; ++g) code[g] ^= 0x80808080u;
  }
}
/// The zero point of those codes.
float zero_of_codes(const int format, uint word) { return word_zero(format, word) - (!has_nibbles(format) && has_zero_point(format) ? 128.0 : 0.0); }

Unit decode_unit(const int format, PackedUnit from, uint unit) {
  Unit u;
  if (is_group(format)) {
    group_codes(format, from, u.code);
    const vec2 f = vec2(word_scale(format, from.head.x), word_scale(format, from.head.y));
    u.f = f.xxyy;
    u.m = -(f * vec2(zero_of_codes(format, from.head.x), zero_of_codes(format, from.head.y))).xxyy;
    return u;
  }
  if (format == Q4_K || format == Q5_K) {
    const uint pair = unit % 4u, s = (pair & 1u) * 16u;
    const uvec4 head = from.head;
    u.code = uvec4[4](low_nibbles(from.q[0]), low_nibbles(from.q[1]), high_nibbles(from.q[0]), high_nibbles(from.q[1]));
    if (format == Q5_K) {
      const uvec4 c = from.q[2] >> 2u * pair, e = from.q[3] >> 2u * pair;
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
    const uvec2 bytes = from.head.xy >> 8u * (unit & 1u);
    const uvec4 high = from.q[2];
    u.code[0] = low_nibbles(from.q[0]) | (high & 0x03030303u) << 4;
    u.code[1] = low_nibbles(from.q[1]) | (high & 0x0c0c0c0cu) << 2;
    u.code[2] = high_nibbles(from.q[0]) | (high & 0x30303030u);
    u.code[3] = high_nibbles(from.q[1]) | (high >> 2 & 0x30303030u);
    for (int g = 0; g < 4; ++g) u.code[g] = ((u.code[g] | 0x80808080u) - 0x20202020u) ^ 0x80808080u;  // each byte less 32
    u.f = half_to_float(from.head.z) * vec4(signed_byte(bytes.x), signed_byte(bytes.x >> 16), signed_byte(bytes.y), signed_byte(bytes.y >> 16));
    u.m = vec4(0.0);
  } else {
    if (format == Q4_1 || format == Q5_1) {
      u.f = vec4(vec2(half_to_float(from.head.x & 0xffffu)), vec2(half_to_float(from.head.y & 0xffffu)));
      u.m = vec4(vec2(half_to_float(from.head.x >> 16)), vec2(half_to_float(from.head.y >> 16)));
    } else {
      u.f = vec4(vec2(half_to_float(from.head.x & 0xffffu)), vec2(half_to_float(from.head.x >> 16)));
      u.m = format == Q8_0 ? vec4(0.0) : (format == Q4_0 ? -8.0 : -16.0) * u.f;
    }
    if (format == Q8_0) {
      u.code = from.q;
    } else {
      u.code = uvec4[4](low_nibbles(from.q[0]), high_nibbles(from.q[0]), low_nibbles(from.q[1]), high_nibbles(from.q[1]));
      if (format == Q5_0 || format == Q5_1) {
        u.code[0] |= spread_16(from.head.z) << 4;
        u.code[1] |= spread_16(from.head.z >> 16) << 4;
        u.code[2] |= spread_16(from.head.w) << 4;
        u.code[3] |= spread_16(from.head.w >> 16) << 4;
      }
    }
  }
  return u;
}
