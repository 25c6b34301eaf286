// Attention over dense keys: [b, t, heads, d] and [b, u, kv_heads, d] under any strides. What attention_dense and its gradient share.
const uint most_parts = 8u;  // elements of a row that a lane sums

#define PLACE(view, b, position, head) ((view).data + uint64_t(int64_t(b) * (view).stride[0] + int64_t(position) * (view).stride[1] + int64_t(head) * (view).stride[2]))
#define ELEMENT(base, view, i) load_float((base) + uint64_t(int64_t(i) * int64_t((view).step)), (view).dtype)

/// By causality and window.
bool sees(uint query, uint key) {
  const int64_t at = int64_t(query) + p.query_offset;
  if (p.causal != 0 && int64_t(key) > at) return false;
  return p.window == 0l || int64_t(key) > at - p.window;
}

/// The score of a query and a key whose product is `product`, or -inf where the mask hides it; `slope` is that of the softcap.
float finished_score(float product, uint b, uint query, uint head, uint key, float alibi, out float slope) {
  slope = 1.0;
  float score = p.scale * product;
  if (p.softcap > 0.0) {
    const float t = tanh_of(score / p.softcap);
    score = p.softcap * t;
    slope = 1.0 - t * t;
  }
  if (p.mask.data == 0ul) return score;
  const uint64_t at = p.mask.data + uint64_t(int64_t(b) * p.mask.stride[0] + int64_t(head) * p.mask.stride[1] + int64_t(query) * p.mask.stride[2] +
                                             int64_t(key) * p.mask.stride[3]);
  if (p.mask.dtype == U8) return uint(Byte(at).v) == 0u ? -INFINITY : score;
  const float m = load_float(at, p.mask.dtype);
  return m == -INFINITY ? m : score + alibi * m;
}
/// Whether the mask hides a key, without arithmetic on it.
bool hidden(uint b, uint query, uint head, uint key) {
  if (!sees(query, key)) return true;
  if (p.mask.data == 0ul) return false;
  const uint64_t at = p.mask.data + uint64_t(int64_t(b) * p.mask.stride[0] + int64_t(head) * p.mask.stride[1] + int64_t(query) * p.mask.stride[2] +
                                             int64_t(key) * p.mask.stride[3]);
  return p.mask.dtype == U8 ? uint(Byte(at).v) == 0u : load_float(at, p.mask.dtype) == -INFINITY;
}
