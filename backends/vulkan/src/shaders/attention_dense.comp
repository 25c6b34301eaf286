#version 460
// Attention over dense keys and within packed examples (attention_tiles.glsl). A workgroup has a tile of queries of a head. It goes through the
// tiles of keys that one of them sees. For each query it keeps the largest score so far and the sum of the weights.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "prelude.glsl"
#include "math.glsl"
#include "alibi.glsl"
STORED(DenseParams)
#define p (ParamsAt(stored).params)
#include "dense.glsl"
#include "attention_tiles.glsl"

shared float row_most[tile], row_sum[tile], row_kept[tile];

float larger(float a, float b) { return a > b ? a : b; }

/// Scores in `weights` become weights, relative to the largest score so far.
void weigh() {
  const uint t = gl_LocalInvocationID.x, row = t / lanes_a_row, lane = t % lanes_a_row, at = row * weight_pitch;
  barrier();
  float largest = -INFINITY;
  for (uint four = lane; four < tile / 4u; four += lanes_a_row) {
    const vec4 s = weights[at + four];
    largest = larger(larger(s.x, s.y), larger(larger(s.z, s.w), largest));
  }
  partial[t] = largest;
  barrier();
  for (uint l = 0u; l < lanes_a_row; ++l) largest = larger(partial[row * lanes_a_row + l], largest);
  const float before = row_most[row], now = larger(largest, before), shift = now == -INFINITY ? 0.0 : now;
  float sum = 0.0;
  for (uint four = lane; four < tile / 4u; four += lanes_a_row) {
    vec4 w = weights[at + four];
    [[unroll]] for (uint e = 0u; e < 4u; ++e) {
      w[e] = w[e] == -INFINITY ? 0.0 : exp_of(w[e] - shift);
      sum += w[e];
    }
    weights[at + four] = w;
  }
  barrier();
  partial[t] = sum;
  barrier();
  if (lane == 0u) {
    const float kept = before == -INFINITY ? 0.0 : exp_of(before - shift);
    sum = row_sum[row] * kept;
    for (uint l = 0u; l < lanes_a_row; ++l) sum += partial[t + l];
    row_most[row] = now;
    row_sum[row] = sum;
    row_kept[row] = kept;
  }
  barrier();
}

void attend(Extent extent, uint head) {
  const uint t = gl_LocalInvocationID.x, kv_head = head / (p.heads / p.kv_heads);
  const Rows q = ROWS(p.q, extent.b, head, extent.queries, p.d), k = ROWS(p.k, extent.b, kv_head, extent.keys, p.d),
             v = ROWS(p.v, extent.b, kv_head, extent.keys, p.dv);
  const uvec2 sight = keys_in_sight(extent, tile);
  const float alibi = alibi_slope(p.max_bias, head, p.heads);
  float sink = -INFINITY;
  if (p.sinks != 0ul) sink = load_float(p.sinks + uint64_t(head) * uint64_t(p.sink_step), p.sink_dtype);
  barrier();
  if (t < tile) {
    row_most[t] = sink;
    row_sum[t] = 0.0;
  }
  if (t == 0u) strange = 0u;
  float total[own * own_dv];
  [[unroll]] for (uint i = 0u; i < own * own_dv; ++i) total[i] = 0.0;
  for (uint first = sight.x / tile * tile; first < sight.y; first += tile) {
    float s[own * own];
    [[unroll]] for (uint i = 0u; i < own * own; ++i) s[i] = 0.0;
    add_dots(s, q, extent.first, k, first);
    if (sees_all(extent, extent.first, first, tile)) {
      [[unroll]] for (uint i = 0u; i < own * own; ++i) s[i] *= p.scale;
      share_weights(s);
    } else {
      float score[own * own] = s;  // one piece of code for all, since it is long
      for (uint i = 0u; i < own * own; ++i) {
        const uint query = extent.first + own_y() + i / own * side, key = first + 4u * own_x() + i % own;
        float unused;
        const bool sees = in_sight(extent, query, key) && !hidden(extent.b, query, head, key);
        score[i] = sees ? finished_score(score[i], extent.b, query, head, key, alibi, unused) : -INFINITY;
      }
      share_weights(score);
    }
    weigh();
    [[unroll]] for (uint i = 0u; i < own; ++i)
      [[unroll]] for (uint j = 0u; j < own_dv; ++j) total[i * own_dv + j] *= row_kept[own_y() + i * side];
    ADD_WEIGHTED(total, own_dv, v, first)
  }
  barrier();
  if (t < tile) {
    const float most = row_most[t], sum = row_sum[t], all = sum + (sink == -INFINITY ? 0.0 : exp_of(sink - most));
    row_kept[t] = sum == 0.0 ? 0.0 : 1.0 / all;
    if (p.lse.data != 0ul && extent.first + t < extent.queries)
      store_float(PLACE(p.lse, extent.b, extent.first + t, head), p.lse.dtype, all == 0.0 ? -INFINITY : most + log_of(all));
  }
  barrier();
  STORE_ROWS(p.y, extent.b, head, total, own_dv, p.dv, extent.first, extent.queries, row_kept[in_tile])
}

void main() {
  const uint tiles = tiles_of(tile, p.queries);
  FOR_EACH_ROW(item, tiles * p.heads) {
    const Extent extent = extent_of(tiles - 1u - item / p.heads, tile, p.queries);  // long ones first
    if (extent.first < extent.queries) attend(extent, item % p.heads);
  }
}
