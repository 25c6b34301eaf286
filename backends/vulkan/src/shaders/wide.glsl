// gemm.comp and gemm_few.comp where f16 has not the range for a row's weights.
#include "finish.glsl"
#include "zero_points.glsl"

/// As pair_of, of any format that has units.
vec2 pair_of_unit(Group g, const int format, uint j) {
  if (!is_group(format)) return pair_of(g, format, j);
  if (format == NF4_64 || format == FP4_64) return format == NF4_64 ? pair_table_nibbles(g, j, nf4_values) : pair_table_nibbles(g, j, fp4_values);
  if (!has_zero_point(format)) return format == F8_128 ? pair_e4m3(g, j) : pair_signed_bytes(g, j);
  return has_nibbles(format) ? pair_zero_nibbles(g, j) : pair_zero_bytes(g, j);
}

/// Where element k of row m of a lies.
uint64_t place_of_a(uint m, uint k) {
  if (p.places == 0ul) return p.a + (uint64_t(m) * uint64_t(p.k) + uint64_t(k)) * 2ul;
  const uint matrix = m / size_n * (p.k / size_k) + k / size_k;
  return p.a + uint64_t(matrix * size_k * size_n + Uint(p.places + uint64_t(k % size_k * size_n + m % size_n) * 4ul).v) * 2ul;
}

/// A tile of y in f32 arithmetic, an output an invocation: where f16 has not the range for a row's weights.
void multiply_wide(const int format, Planes planes, uint first_row, uint first_column, uint rows, uint columns) {
  const uint row_blocks = p.k / block_elements(format), per_block = block_elements(format) / 16u;
  for (uint e = gl_LocalInvocationID.x; e < rows * columns; e += gl_WorkGroupSize.x) {
    const uint row = first_row + e / columns, column = first_column + e % columns;
    if (row >= p.m || column >= p.n) continue;
    const uint64_t block = uint64_t(column) * uint64_t(row_blocks);
    float sum = 0.0;
    for (uint unit = 0u; unit < p.k / 16u; ++unit) {
      Group group;
      if (format == Q4_K || format == Q5_K) group = open_group(p.b + (block + uint64_t(unit / per_block)) * uint64_t(block_bytes(format)), format, unit % per_block * 16u);
      else group = open_packed(planes, block + uint64_t(unit / per_block), format, unit % per_block * 16u);
      for (uint j = 0u; j < 8u; ++j) {  // activations 1 and 2 of each four have changed places
        const uint first = unit * 16u + 2u * j - (j & 1u), second = first + 2u;
        const vec2 w = pair_of_unit(group, format, j);
        sum = fma(scale_at(place_of_a(row, second)), w.y, fma(scale_at(place_of_a(row, first)), w.x, sum));
      }
    }
    float v = sum * Float(p.row_scale + uint64_t(row) * 4ul).v;
    if (p.bias != 0ul) v += load_packed(p.bias, p.bias_dtype, column);
    const uint64_t at = (uint64_t(row) * uint64_t(p.n) + uint64_t(column)) * 4ul;
    if (p.c != 0ul) v += Float(p.c + at).v;
    Float(p.y + at).v = v;
  }
}
