// What products by cooperative matrices share, whose parameters are GemmParams.

/// Four neighbours of a row of y, with bias and c.
void finish_four(uint row, uint column, vec4 v) {
  if (p.bias != 0ul) {
    [[unroll]] for (uint l = 0; l < 4u; ++l) v[l] += load_packed(p.bias, p.bias_dtype, min(column + l, p.n - 1u));
  }
  const uint64_t at = (uint64_t(row) * uint64_t(p.n) + uint64_t(column)) * 4ul;
  if (p.n % 4u == 0u) {
    if (p.c != 0ul) v += Float4(p.c + at).v;
    Float4(p.y + at).v = v;
  } else {
    for (uint l = 0; l < min(4u, p.n - column); ++l) {
      if (p.c != 0ul) v[l] += Float(p.c + at + uint64_t(l * 4u)).v;
      Float(p.y + at + uint64_t(l * 4u)).v = v[l];
    }
  }
}
