// Blocks with a zero point, of any size: a word with the zero point and the scale, the upper 24 bits of an f32, then the codes.
#ifndef ZERO_POINTS
#define ZERO_POINTS

/// Codes of four bits: byte j of 16 has elements j and j + 16 of 32.
Group open_zero_nibbles(uint64_t block, uint first) {
  const uint head = short_at(block) | short_at(block + 2u) << 16;
  return Group(block + 4u + first / 32u * 16u, block, uintBitsToFloat(head & ~255u), 0.0, float(head & 255u), (first & 16u) / 4u, 0u, 0u);
}
vec2 pair_zero_nibbles(Group g, uint j) {
  const uint s = short_at(g.codes + 2u * j);
  return g.d * (vec2(uvec2(s, s >> 8) >> g.shift & 15u) - g.bias);
}

/// Codes of eight bits.
Group open_zero_bytes(uint64_t block, uint first) {
  Group g = open_zero_nibbles(block, 0u);
  g.codes += first;
  return g;
}
vec2 pair_zero_bytes(Group g, uint j) {
  const uint s = short_at(g.codes + 2u * j);
  return g.d * (vec2(uvec2(s, s >> 8) & 255u) - g.bias);
}

#ifdef ENCODES
/// x with the upper 24 bits of an f32, to nearest even; below 2^-100 it is 0, so that no inverse overflows. A NaN stays one.
float short_float(float x) {
  if (abs(x) < 7.888609e-31) return 0.0;
  const uint bits = floatBitsToUint(x);
  return uintBitsToFloat((is_nan(x) ? bits | 0x400000u : bits + 127u + (bits >> 8 & 1u)) & ~255u);
}
/// Stores the head of a block of n elements: the range of the block and 0 is cut into equal steps up to `most`.
void put_zero_point(uint64_t b, uint n, int most, out float inverse, out float zero) {
  float low, high;
  range_of(0u, n, low, high);
  if (!is_nan(low)) {
    low = min(low, 0.0);
    high = max(high, 0.0);
  }
  const float scale = short_float((high - low) / float(most));
  inverse = inverse_of(scale);
  const int code = code_of(-low, inverse, 0.0, 0, most);
  zero = float(code);
  const uint head = floatBitsToUint(scale) | uint(code);
  for (uint i = 0u; i < 4u; ++i) put_byte(b + i, head >> 8u * i & 255u);
}
void encode_zero_nibbles(uint64_t b, uint n) {
  float inverse, zero;
  put_zero_point(b, n, 15, inverse, zero);
  for (uint i = 0u; i < n; i += 32u)
    for (uint j = 0u; j < 16u; ++j)
      put_byte(b + 4u + i / 2u + j, uint(code_of(x_at(i + j), inverse, zero, 0, 15)) | uint(code_of(x_at(i + j + 16u), inverse, zero, 0, 15)) << 4);
}
void encode_zero_bytes(uint64_t b, uint n) {
  float inverse, zero;
  put_zero_point(b, n, 255, inverse, zero);
  for (uint i = 0u; i < n; ++i) put_byte(b + 4u + i, uint(code_of(x_at(i), inverse, zero, 0, 255)));
}
#endif
#endif
