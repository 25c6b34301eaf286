// Four neighbours of a row at once.
vec4 wide_four(uint64_t at, int dtype) {
  if (dtype == F32) return Float4(at).v;
  UintPair words = UintPair(at);
  const uvec4 h = uvec4(words.a & 0xffffu, words.a >> 16, words.b & 0xffffu, words.b >> 16);
  if (dtype == BF16) return uintBitsToFloat(h << 16);
  return vec4(half_to_float(h.x), half_to_float(h.y), half_to_float(h.z), half_to_float(h.w));
}
