// Block formats in planes: each field of all blocks of a matrix lies together, so that codes are read 16 bytes at a time. The planes are, in
// this order, each at a multiple of 256 bytes: scale (and minimum or zero point), codes, high bits, scales of sub-blocks. As in weights.cpp.
struct Planes {
  uint64_t small, codes, high, scales;
};

uvec4 plane_bytes(const int format) {  // of a block
  if (is_group(format)) return uvec4(4u, group_elements(format) / (has_nibbles(format) ? 2u : 1u), 0u, 0u);
  switch (format) {
    case Q4_0: return uvec4(2, 16, 0, 0);
    case Q4_1: return uvec4(4, 16, 0, 0);
    case Q5_0: return uvec4(2, 16, 4, 0);
    case Q5_1: return uvec4(4, 16, 4, 0);
    case Q8_0: return uvec4(2, 32, 0, 0);
    default: return uvec4(2, 128, 64, 16);  // Q6_K
  }
}
uint64_t plane_end(uint64_t begin, uint64_t blocks, uint bytes) { return begin + (blocks * uint64_t(bytes) + 255ul & ~255ul); }
Planes planes_at(uint64_t base, const int format, uint64_t blocks) {
  const uvec4 bytes = plane_bytes(format);
  Planes p;
  p.small = base;
  p.codes = plane_end(p.small, blocks, bytes.x);
  p.high = plane_end(p.codes, blocks, bytes.y);
  p.scales = plane_end(p.high, blocks, bytes.z);
  return p;
}

/// As open_group, of block `block` of a matrix.
Group open_packed(Planes planes, uint64_t block, const int format, uint first) {
  const uvec4 bytes = plane_bytes(format);
  const uint64_t small = planes.small + block * uint64_t(bytes.x);
  if (is_group(format)) {
    const uint word = Uint(small).v;
    const uint64_t codes = planes.codes + block * uint64_t(bytes.y) + uint64_t(has_nibbles(format) ? first / 32u * 16u : first);
    return Group(codes, codes, word_scale(format, word), 0.0, word_zero(format, word), has_nibbles(format) ? (first & 16u) / 4u : 0u, 0u, 0u);
  }
  Group g = Group(planes.codes + block * uint64_t(bytes.y), planes.high + block * uint64_t(bytes.z), scale_at(small), 0.0, 0.0, first / 4u, 0u, 0u);
  if (format == Q8_0) {
    g.codes += first;
  } else if (format == Q6_K) {
    const uint h = first >> 7, n = first >> 6 & 1u, part = first >> 5 & 1u, l = first & 31u;
    g.d *= float(signed_byte(byte_at(planes.scales + block * 16ul + first / 16u)));
    g.codes += 64u * h + 32u * part + l;
    g.high += 32u * h + l;
    g.shift = 4u * n;
    g.high_shift = 4u * n + 2u * part;
    g.bias = 32.0;
  } else {
    if (format == Q4_1 || format == Q5_1) g.m = scale_at(small + 2u);
    else g.bias = format == Q5_0 ? 16.0 : 8.0;
    if (format == Q5_0 || format == Q5_1) g.bits = short_at(g.high + first / 8u);
  }
  return g;
}
