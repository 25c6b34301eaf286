// Attention over dense keys, [b, t, heads, d] and [b, u, kv_heads, d] under any strides, or within packed examples of [t, heads, d]. What
// attention_dense, attention_ragged and their gradients share.
layout(constant_id = 1) const int ragged = 0;
const uint most_parts = 8u;  // elements of a row that a lane sums

#define PLACE(view, b, position, head) ((view).data + uint64_t(int64_t(b) * (view).stride[0] + int64_t(position) * (view).stride[1] + int64_t(head) * (view).stride[2]))
#define ELEMENT(base, view, i) load_float((base) + uint64_t(int64_t(i) * int64_t((view).step)), (view).dtype)

/// The batch or packed example of a row: where it begins (b of PLACE), the row's place in it, and its queries and keys. A row of no example has
/// none of either.
struct Extent {
  uint b, row, queries, keys;
};
uint example_start(uint e) { return uint(Int(p.start + uint64_t(e) * 4ul).v); }
Extent extent_of(uint b, uint row) {
  if (ragged == 0) return Extent(b, row, p.queries, p.keys);
  const Extent no_example = Extent(0u, row, 0u, 0u);
  if (Int(p.valid).v == 0) return no_example;
  uint e = 0u;  // the last that begins at the row or before it
  for (uint end = p.examples + 1u; end - e > 1u;) {
    const uint middle = e + (end - e) / 2u;
    if (example_start(middle) <= row) e = middle;
    else end = middle;
  }
  if (e == p.examples) return no_example;
  const uint begin = example_start(e), count = example_start(e + 1u) - begin;
  return Extent(begin, row - begin, count, count);
}

uint within(int64_t at, uint count) { return at < 0l ? 0u : at > int64_t(count) ? count : uint(at); }
/// Keys that a query sees by causality and window: [x, y).
uvec2 keys_in_sight(Extent extent) {
  const int64_t at = int64_t(extent.row) + p.query_offset;
  return uvec2(p.window > 0l ? within(at - p.window + 1l, extent.keys) : 0u, p.causal != 0 ? within(at + 1l, extent.keys) : extent.keys);
}
/// Queries that see a key by causality and window.
uvec2 queries_in_sight(Extent extent) {
  const int64_t at = int64_t(extent.row) - p.query_offset;
  return uvec2(p.causal != 0 ? within(at, extent.queries) : 0u, p.window > 0l ? within(at + p.window, extent.queries) : extent.queries);
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
  if (p.mask.data == 0ul) return false;
  const uint64_t at = p.mask.data + uint64_t(int64_t(b) * p.mask.stride[0] + int64_t(head) * p.mask.stride[1] + int64_t(query) * p.mask.stride[2] +
                                             int64_t(key) * p.mask.stride[3]);
  return p.mask.dtype == U8 ? uint(Byte(at).v) == 0u : load_float(at, p.mask.dtype) == -INFINITY;
}
