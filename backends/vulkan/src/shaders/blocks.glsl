// Block formats, decoded from their canonical bytes, two elements of a group of 16 at a time. `format` is a constant, so only its branch is left.
// Layouts are those of quern_formats.h. Every product here is exact in f32, so only the addition of a minimum rounds.
#define Q4_0 32
#define Q4_1 33
#define Q5_0 34
#define Q5_1 35
#define Q8_0 36
#define Q4_K 42
#define Q5_K 43
#define Q6_K 44
#include "groups.glsl"

uint block_elements(int format) {
  if (is_group(format)) return group_elements(format);
  return format < Q4_0 ? 16u : format < Q4_K ? 32u : 256u;
}
uint block_bytes(int format) {
  switch (format) {
    case F32: return 64u;
    case F16: case BF16: return 32u;
    case Q4_0: return 18u;
    case Q4_1: return 20u;
    case Q5_0: return 22u;
    case Q5_1: return 24u;
    case Q8_0: return 34u;
    case Q4_K: return 144u;
    case Q5_K: return 176u;
    default: return 210u;
  }
}

uint byte_at(uint64_t at) { return uint(Byte(at).v); }
uint short_at(uint64_t at) { return uint(Short(at).v); }
float scale_at(uint64_t at) { return half_to_float(short_at(at)); }
int signed_byte(uint b) { return int(b << 24) >> 24; }

/// 6-bit scale and minimum of sub-block j of Q4_K and Q5_K, from the 12 bytes that hold eight of each.
void sub_scales(uint64_t s, uint j, out float scale, out float minimum) {
  if (j < 4u) {
    scale = float(byte_at(s + j) & 63u);
    minimum = float(byte_at(s + j + 4u) & 63u);
  } else {
    const uint both = byte_at(s + j + 4u);
    scale = float((both & 15u) | (byte_at(s + j - 4u) >> 6) << 4);
    minimum = float(both >> 4 | (byte_at(s + j) >> 6) << 4);
  }
}

/// 16 neighbouring elements of a block: element = d * (code - bias) + m. `format` is a constant wherever this is used.
struct Group {
  uint64_t codes, high;  // where the codes begin, and the bits above them
  float d, m, bias;
  uint shift, high_shift, bits;
};

/// Elements first .. first + 15; first is a multiple of 16.
Group open_group(uint64_t block, const int format, uint first) {
  Group g = Group(block, block, 1.0, 0.0, 0.0, first / 4u, 0u, 0u);
  if (format < Q4_0) return g;
  if (format == Q8_0) {
    g.d = scale_at(block);
    g.codes = block + 2u + first;
  } else if (format == Q6_K) {
    const uint h = first >> 7, n = first >> 6 & 1u, part = first >> 5 & 1u, l = first & 31u;
    g.d = scale_at(block + 208u) * float(signed_byte(byte_at(block + 192u + first / 16u)));
    g.codes = block + 64u * h + 32u * part + l;
    g.high = block + 128u + 32u * h + l;
    g.shift = 4u * n;
    g.high_shift = 4u * n + 2u * part;
    g.bias = 32.0;
  } else if (format == Q4_K || format == Q5_K) {
    const uint j = first / 32u;
    float scale, minimum;
    sub_scales(block + 4u, j, scale, minimum);
    g.d = scale_at(block) * scale;
    g.m = -(scale_at(block + 2u) * minimum);
    g.codes = block + (format == Q4_K ? 16u : 48u) + j / 2u * 32u + (first & 16u);
    g.high = block + 16u + (first & 16u);
    g.shift = (j & 1u) * 4u;
    g.high_shift = j;
  } else {
    const bool offset = format == Q4_1 || format == Q5_1, five = format == Q5_0 || format == Q5_1;
    g.d = scale_at(block);
    if (offset) g.m = scale_at(block + 2u);
    else g.bias = five ? 16.0 : 8.0;
    const uint head = offset ? 4u : 2u;
    if (five) g.bits = short_at(block + head + first / 8u);
    g.codes = block + head + (five ? 4u : 0u);
  }
  return g;
}

/// Elements 2 j and 2 j + 1 of a group.
vec2 pair_of(Group g, const int format, uint j) {
  if (format == F32) return vec2(Float(g.codes + 8u * j).v, Float(g.codes + 8u * j + 4u).v);
  if (format == F16 || format == BF16) {
    const uint a = short_at(g.codes + 4u * j), b = short_at(g.codes + 4u * j + 2u);
    return format == F16 ? vec2(half_to_float(a), half_to_float(b)) : vec2(bf16_to_float(a), bf16_to_float(b));
  }
  const uint s = short_at(g.codes + 2u * j);
  if (format == Q8_0) return g.d * vec2(signed_byte(s), signed_byte(s >> 8));
  uvec2 code = uvec2(s, s >> 8) >> g.shift & 15u;
  if (format == Q6_K) {
    const uint t = short_at(g.high + 2u * j) >> g.high_shift;
    code |= (uvec2(t, t >> 8) & 3u) << 4;
  } else if (format == Q5_K) {
    const uint t = short_at(g.high + 2u * j) >> g.high_shift;
    code |= (uvec2(t, t >> 8) & 1u) << 4;
  } else if (format == Q5_0 || format == Q5_1) {
    const uint t = g.bits >> 2u * j;
    code |= (uvec2(t, t >> 1) & 1u) << 4;
  }
  return g.d * (vec2(code) - g.bias) + g.m;
}
