// Blocks with an f32 as their scale: its word, then the codes. A scale below 2^-100 is stored as 0, so that no inverse overflows.
#ifndef WHOLE_SCALES
#define WHOLE_SCALES

// Those of quern_formats.h.
const float nf4_values[16] = float[16](
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
    -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634,
    0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0);
const float fp4_values[16] = float[16](
    0.0, 0.0052083334885537624, 0.6666666865348816, 1.0, 0.3333333432674408, 0.5, 0.1666666716337204, 0.25,
    -0.0, -0.0052083334885537624, -0.6666666865348816, -1.0, -0.3333333432674408, -0.5, -0.1666666716337204, -0.25);

Group open_whole_scale(uint64_t block) {
  const uint head = short_at(block) | short_at(block + 2u) << 16;
  return Group(block + 4u, block, uintBitsToFloat(head), 0.0, 0.0, 0u, 0u, 0u);
}
Group open_bytes(uint64_t block, uint first) {
  Group g = open_whole_scale(block);
  g.codes += first;
  return g;
}
/// Byte j of 16 has elements j and j + 16 of 32.
Group open_table_nibbles(uint64_t block, uint first) {
  Group g = open_whole_scale(block);
  g.codes += first / 32u * 16u;
  g.shift = (first & 16u) / 4u;
  return g;
}
vec2 pair_table_nibbles(Group g, uint j, const float values[16]) {
  const uint s = short_at(g.codes + 2u * j) >> g.shift;
  return g.d * vec2(values[s & 15u], values[s >> 8 & 15u]);
}
vec2 pair_signed_bytes(Group g, uint j) {
  const uint s = short_at(g.codes + 2u * j);
  return g.d * vec2(signed_byte(s), signed_byte(s >> 8));
}
/// A number of eight bits: sign, four bits of exponent, three of mantissa. As an f16 it lies 2^8 lower.
float e4m3_to_float(uint code) {
  const uint size = code & 0x7fu;
  return 256.0 * half_to_float((code & 0x80u) << 8 | size << 7 | (size == 0x7fu ? 0x7c00u : 0u));
}
vec2 pair_e4m3(Group g, uint j) {
  const uint s = short_at(g.codes + 2u * j);
  return g.d * vec2(e4m3_to_float(s & 255u), e4m3_to_float(s >> 8));
}

#ifdef ENCODES
/// Stores the scale of a block of n elements, the largest magnitude over `most`, and returns its inverse.
float put_whole_scale(uint64_t b, uint n, float most) {
  float scale = abs(extreme(0u, n)) / most;
  if (scale < 7.888609e-31) scale = 0.0;
  for (uint i = 0u; i < 4u; ++i) put_byte(b + i, floatBitsToUint(scale) >> 8u * i & 255u);
  return inverse_of(scale);
}
void encode_signed_bytes(uint64_t b, uint n) {
  const float inverse = put_whole_scale(b, n, 127.0);
  for (uint i = 0u; i < n; ++i) put_byte(b + 4u + i, uint(code_of(x_at(i), inverse, 0.0, -127, 127)) & 255u);
}
/// To nearest even, cut to +-448.
uint float_to_e4m3(float x) {
  const uint bits = floatBitsToUint(x), sign = bits >> 24 & 0x80u;
  const float size = abs(x);
  if (is_nan(x)) return sign | 0x7fu;
  if (size >= 448.0) return sign | 0x7eu;
  const int exponent = max(int(bits >> 23 & 255u) - 127, -6);
  const int eighths = int(roundEven(size * uintBitsToFloat(uint(130 - exponent) << 23)));  // 16 carries into the exponent
  return sign | uint((exponent + 7) * 8 + eighths - 8);
}
void encode_e4m3(uint64_t b, uint n) {
  const float inverse = put_whole_scale(b, n, 448.0);
  for (uint i = 0u; i < n; ++i) put_byte(b + 4u + i, float_to_e4m3(x_at(i) * inverse));
}
uint nearest_code(float x, const float values[16]) {
  uint best = 0u;
  for (uint code = 1u; code < 16u; ++code)
    if (abs(x - values[code]) < abs(x - values[best])) best = code;
  return best;
}
void encode_table_nibbles(uint64_t b, uint n, const float values[16]) {
  const float inverse = put_whole_scale(b, n, 1.0);
  for (uint i = 0u; i < n; i += 32u)
    for (uint j = 0u; j < 16u; ++j)
      put_byte(b + 4u + i / 2u + j, nearest_code(x_at(i + j) * inverse, values) | nearest_code(x_at(i + j + 16u) * inverse, values) << 4);
}
#endif
#endif
