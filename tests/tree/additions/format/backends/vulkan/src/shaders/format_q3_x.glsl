// Q3_X: d, a third bit of each code, then two low bits of each.
Group open_q3_x(uint64_t block, uint first) {
  Group g = Group(block + 6u + first / 4u, block, scale_at(block), 0.0, 4.0, 0u, 0u, 0u);
  g.bits = short_at(block + 2u + first / 8u);
  return g;
}

vec2 pair_q3_x(Group g, uint j) {
  const uint low = byte_at(g.codes + j / 2u) >> 4u * (j & 1u), high = g.bits >> 2u * j;
  const uvec2 code = (uvec2(low, low >> 2) & 3u) | (uvec2(high, high >> 1) & 1u) << 2;
  return g.d * (vec2(code) - g.bias);
}

#ifdef ENCODES
void encode_q3_x(uint64_t b) {
  const float inverse = inverse_of(put_scale(b, extreme(0u, 32u) / -4.0));
  uint high = 0u;
  for (uint i = 0u; i < 32u; i += 4u) {
    uint low = 0u;
    for (uint j = 0u; j < 4u; ++j) {
      const uint code = uint(code_of(x_at(i + j), inverse, 4.0, 0, 7));
      low |= (code & 3u) << 2u * j;
      high |= code >> 2 << i + j;
    }
    put_byte(b + 6u + i / 4u, low);
  }
  for (uint i = 0u; i < 4u; ++i) put_byte(b + 2u + i, high >> 8u * i & 255u);
}
#endif
