// What kernels of matmul share: where the operands of a batch lie, and what becomes of a sum.
struct Places {
  uint64_t a, b, c, y;
};
Places places_of(uint batch) {
  Places at = Places(p.a, p.b, p.c, p.y);
  for (int d = 3; d >= 0; --d) {
    const uint i = batch % p.batch_dims[d];
    batch /= p.batch_dims[d];
    at.a += uint64_t(p.a_batch[d] * int64_t(i));
    at.b += uint64_t(p.b_batch[d] * int64_t(i / p.group[d]));
    at.c += uint64_t(p.c_batch[d] * int64_t(i));
    at.y += uint64_t(p.y_batch[d] * int64_t(i));
  }
  return at;
}

float finished(Places at, uint row, uint column, float sum) {
  float v = p.alpha * sum;
  if (p.bias != 0ul) v += load_float(p.bias + uint64_t(column) * uint64_t(p.bias_step), p.bias_dtype);
  if (p.c != 0ul) v += p.beta * load_float(at.c + uint64_t(p.c_row * int64_t(row)) + uint64_t(column) * uint64_t(p.c_step), p.c_dtype);
  return v;
}
/// y may be c: an element is read before it is written, by the same invocation.
void finish(Places at, uint row, uint column, float sum) {
  const float v = finished(at, row, column, sum);
  store_float(at.y + uint64_t(p.y_row * int64_t(row)) + uint64_t(column) * uint64_t(p.y_step), p.y_dtype, v);
}
