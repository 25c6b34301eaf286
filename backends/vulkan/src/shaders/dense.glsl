// Attention over dense keys, [b, t, heads, d] and [b, u, kv_heads, d] under any strides, or within packed examples of [t, heads, d]. What
// attention_dense, attention_ragged and their gradients share.
layout(constant_id = 1) const int ragged = 0;
#define PLACE(view, b, position, head) ((view).data + uint64_t(int64_t(b) * (view).stride[0] + int64_t(position) * (view).stride[1] + int64_t(head) * (view).stride[2]))
#define ELEMENT(base, view, i) load_float((base) + uint64_t(int64_t(i) * int64_t((view).step)), (view).dtype)

/// A tile of rows: its batch or packed example, which begins at row b of PLACE; the tile's first row in it, and how many queries and keys it has.
/// The rows behind the last example are as one that sees nothing.
struct Extent {
  uint b, first, queries, keys;
  bool blind;
};
uint example_start(uint e) { return e > p.examples ? p.queries : uint(Int(p.start + uint64_t(e) * 4ul).v); }
/// Tiles of `tile` rows that all batches of `rows` rows have; examples begin tiles of their own.
uint tiles_of(uint tile, uint rows) { return ragged != 0 ? rows / tile + p.examples + 1u : (rows + tile - 1u) / tile * p.batch; }
Extent extent_of(uint number, uint tile, uint rows) {
  if (ragged == 0) {
    const uint count = (rows + tile - 1u) / tile;
    return Extent(number / count, number % count * tile, p.queries, p.keys, false);
  }
  if (Int(p.valid).v == 0) return Extent(0u, number * tile, rows, rows, true);
  uint e = 0u;  // the last whose tiles begin at the number or before it
  for (uint end = p.examples + 1u; end - e > 1u;) {
    const uint middle = e + (end - e) / 2u;
    if (example_start(middle) / tile + middle <= number) e = middle;
    else end = middle;
  }
  const uint begin = example_start(e), count = example_start(e + 1u) - begin;
  return Extent(begin, (number - begin / tile - e) * tile, count, count, e == p.examples);
}

uint within(int64_t at, uint count) { return at < 0l ? 0u : at > int64_t(count) ? count : uint(at); }
/// Keys that a tile of queries sees by causality and window: [x, y).
uvec2 keys_in_sight(Extent extent, uint tile) {
  if (extent.blind) return uvec2(0u);
  const int64_t first = int64_t(extent.first) + p.query_offset, last = int64_t(min(extent.first + tile, extent.queries)) - 1l + p.query_offset;
  return uvec2(p.window > 0l ? within(first - p.window + 1l, extent.keys) : 0u, p.causal != 0 ? within(last + 1l, extent.keys) : extent.keys);
}
/// Queries that see a tile of keys by causality and window.
uvec2 queries_in_sight(Extent extent, uint tile) {
  if (extent.blind) return uvec2(0u);
  const int64_t first = int64_t(extent.first) - p.query_offset, last = int64_t(min(extent.first + tile, extent.keys)) - 1l - p.query_offset;
  return uvec2(p.causal != 0 ? within(first, extent.queries) : 0u, p.window > 0l ? within(last + p.window, extent.queries) : extent.queries);
}
/// Whether a query sees a key by its place.
bool in_sight(Extent extent, uint query, uint key) {
  const int64_t behind = int64_t(query) + p.query_offset - int64_t(key);
  return query < extent.queries && key < extent.keys && (p.causal == 0 || behind >= 0l) && (p.window <= 0l || behind < p.window);
}

/// Whether each query of a tile sees each key of another, both being whole, and their scores are products times the scale alone.
bool sees_all(Extent extent, uint first_query, uint first_key, uint tile) {
  if (p.mask.data != 0ul || p.softcap > 0.0 || first_query + tile > extent.queries || first_key + tile > extent.keys) return false;
  const int64_t least = int64_t(first_query) + p.query_offset - int64_t(first_key + tile - 1u), most = least + 2l * int64_t(tile - 1u);
  return (p.causal == 0 || least >= 0l) && (p.window <= 0l || most < p.window);
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
