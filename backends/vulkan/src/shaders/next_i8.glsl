// Int8 activations of one row, made by the kernel before the product that takes them: as quantise.comp lays out a row, but each 16 neighbours
// have a scale of their own; then, of a row that an RMS norm is still to scale, the sum of squares of each 16.
uint64_t squares_of(uint64_t base, uint k, uint group) { return base + uint64_t(k) + uint64_t(k / 16u) * 8ul + uint64_t(group) * 4ul; }

/// Elements i .. i + 15 of a row of k, i being a multiple of 16.
void store_sixteen(uint64_t base, uint k, uint i, Eight first, Eight second) {
  const uint largest = max(largest_of(first), largest_of(second));
  const float scale = scale_of(largest);
  int sum = 0, more = 0;
  const uvec2 a = codes_of_eight(first, largest, sum), b = codes_of_eight(second, largest, more);
  Uint4(codes_of(base, k, 0u, i)).v = uvec4(a, b);
  FloatPair(scales_of(base, 1u, k, 0u, i)).v = vec2(scale, scale * float(sum + more));
}
