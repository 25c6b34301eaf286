// Rows of activations as int8, made by quantise.comp: the codes of all rows, then for each group of 16 its scale, and its scale times the sum
// of its codes. 32 neighbours have one scale. k is a multiple of 64.
//
// Of a row, first come the first groups of each 64 elements, then their second ones and so on: the lanes of a subgroup, each with 64 elements,
// read neighbouring groups.
uint group_place(uint k, uint i) { return (i / 16u & 3u) * (k / 64u) + i / 64u; }
uint64_t codes_of(uint64_t base, uint k, uint row, uint i) {
  return base + uint64_t(row) * uint64_t(k) + uint64_t(group_place(k, i) * 16u + i % 16u);
}
uint64_t scales_of(uint64_t base, uint rows, uint k, uint row, uint i) {
  return base + uint64_t(rows) * uint64_t(k) + (uint64_t(row) * uint64_t(k / 16u) + uint64_t(group_place(k, i))) * 8ul;
}

/// Eight neighbours, a quarter of those that share a scale.
struct Eight {
  vec4 v[2];
};
/// The bits of the largest size: these are in the order of sizes, and NaN is the largest.
uint largest_of(Eight x) {
  const uvec4 a = floatBitsToUint(x.v[0]) & 0x7fffffffu, b = floatBitsToUint(x.v[1]) & 0x7fffffffu, c = max(a, b);
  return max(max(c.x, c.y), max(c.z, c.w));
}
/// What is not finite makes the scale NaN, and so all that reads these 32.
float scale_of(uint largest) { return largest < 0x7f800000u ? uintBitsToFloat(largest) / 127.0 : NOT_A_NUMBER; }
/// Codes of eight neighbours and their sum.
uvec2 codes_of_eight(Eight x, uint largest, out int sum) {
  const float size = uintBitsToFloat(largest);
  sum = 0;
  if (largest >= 0x7f800000u || !(size > 1e-30)) return uvec2(0u);
  uvec2 words;
  const float inverse = 127.0 / size;
  for (uint h = 0u; h < 2u; ++h) {
    const ivec4 code = clamp(ivec4(roundEven(x.v[h] * inverse)), -127, 127);
    sum += code.x + code.y + code.z + code.w;
    const uvec4 bits = uvec4(code) & 255u;
    words[h] = bits.x | bits.y << 8 | bits.z << 16 | bits.w << 24;
  }
  return words;
}
