#version 460
// Gradients of attention_dense and attention_ragged (attention_tiles.glsl), with the probabilities computed again from lse:
//   P = exp(s - lse), d = dy . y, dP = dy v^T, dv = P^T dy.
//   dS = P (dP - d), through softcap and scale. dq = dS k, dk = dS^T q.
//
// Constant 5 is 0 where a workgroup has a tile of queries of a head, and makes d and dq. It is 1 where it has a tile of keys, and makes dk and dv:
// from the tiles of queries that see one of them, of each head that reads it.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "prelude.glsl"
#include "math.glsl"
#include "alibi.glsl"
layout(constant_id = 5) const int of_keys = 0;
STORED(DenseParams)
#define p (ParamsAt(stored).params)
#include "dense.glsl"
#include "attention_tiles.glsl"

shared float row_lse[tile], row_dot[tile];  // of queries

/// A dot product s and the gradient ds of its probability become that probability and the gradient of s.
void weigh(Extent extent, uint query, uint head, uint key, float alibi, float lse, float dot, inout float s, inout float ds) {
  float slope;
  const bool sees = in_sight(extent, query, key) && !hidden(extent.b, query, head, key);
  const float score = sees ? finished_score(s, extent.b, query, head, key, alibi, slope) : -INFINITY;
  s = score == -INFINITY || lse == -INFINITY || lse == INFINITY ? 0.0 : exp_of(score - lse);
  ds = s == 0.0 ? 0.0 : s * (ds - dot) * slope * p.scale;
}

/// The same where the query is known to see the key, and its score is s times the scale.
void weigh_seen(float lse, float dot, inout float s, inout float ds) {
  s = lse == -INFINITY || lse == INFINITY ? 0.0 : exp_of(p.scale * s - lse);
  ds = s == 0.0 ? 0.0 : s * (ds - dot) * p.scale;
}

void make_queries(Extent extent, uint head) {
  const uint t = gl_LocalInvocationID.x, kv_head = head / (p.heads / p.kv_heads), lane = t % lanes_a_row, row = extent.first + t / lanes_a_row;
  const Rows q = ROWS(p.q, extent.b, head, extent.queries, p.d), dy = ROWS(p.dy, extent.b, head, extent.queries, p.dv),
             y = ROWS(p.y, extent.b, head, extent.queries, p.dv), k = ROWS(p.k, extent.b, kv_head, extent.keys, p.d),
             v = ROWS(p.v, extent.b, kv_head, extent.keys, p.dv);
  const uvec2 sight = keys_in_sight(extent, tile);
  const float alibi = alibi_slope(p.max_bias, head, p.heads);
  barrier();
  float dot_part = 0.0;
  for (uint c = 4u * lane; c < p.dv; c += 4u * lanes_a_row) {
    const vec4 a = four_along(dy, row, c), b = four_along(y, row, c);
    [[unroll]] for (uint e = 0u; e < 4u; ++e) dot_part = fma(a[e], b[e], dot_part);
  }
  partial[t] = dot_part;
  if (t == 0u) strange = 0u;
  barrier();
  if (lane == 0u) {
    float sum = 0.0;
    for (uint l = 0u; l < lanes_a_row; ++l) sum += partial[t + l];
    row_dot[t / lanes_a_row] = sum;
    const bool there = row < extent.queries;
    if (there) Float(PLACE(p.dots, extent.b, row, head)).v = sum;
    row_lse[t / lanes_a_row] = there ? load_float(PLACE(p.lse, extent.b, row, head), p.lse.dtype) : -INFINITY;
  }
  float total[own * own_d];
  [[unroll]] for (uint i = 0u; i < own * own_d; ++i) total[i] = 0.0;
  for (uint first = sight.x / tile * tile; first < sight.y; first += tile) {
    float s[own * own], ds[own * own];
    [[unroll]] for (uint i = 0u; i < own * own; ++i) s[i] = ds[i] = 0.0;
    add_dots(s, q, extent.first, k, first);
    add_dots(ds, dy, extent.first, v, first);
    if (sees_all(extent, extent.first, first, tile)) {
      [[unroll]] for (uint i = 0u; i < own * own; ++i) {
        const uint in_tile = own_y() + i / own * side;
        weigh_seen(row_lse[in_tile], row_dot[in_tile], s[i], ds[i]);
      }
      share_weights(ds);
    } else {
      float w[own * own] = s, dw[own * own] = ds;  // one piece of code for all, since it is long
      for (uint i = 0u; i < own * own; ++i) {
        const uint in_tile = own_y() + i / own * side;
        weigh(extent, extent.first + in_tile, head, first + 4u * own_x() + i % own, alibi, row_lse[in_tile], row_dot[in_tile], w[i], dw[i]);
      }
      share_weights(dw);
    }
    ADD_WEIGHTED(total, own_d, k, first)
  }
  STORE_ROWS(p.dq, extent.b, head, total, own_d, p.d, extent.first, extent.queries, 1.0)
}

void make_keys(Extent extent, uint kv_head) {
  const uint t = gl_LocalInvocationID.x, group = p.heads / p.kv_heads;
  const Rows k = ROWS(p.k, extent.b, kv_head, extent.keys, p.d), v = ROWS(p.v, extent.b, kv_head, extent.keys, p.dv);
  const uvec2 sight = queries_in_sight(extent, tile);
  barrier();
  if (t == 0u) strange = 0u;
  float dk_total[own * own_d], dv_total[own * own_dv];
  [[unroll]] for (uint i = 0u; i < own * own_d; ++i) dk_total[i] = 0.0;
  [[unroll]] for (uint i = 0u; i < own * own_dv; ++i) dv_total[i] = 0.0;
  for (uint head = kv_head * group; head < kv_head * group + group; ++head) {
    const Rows q = ROWS(p.q, extent.b, head, extent.queries, p.d), dy = ROWS(p.dy, extent.b, head, extent.queries, p.dv);
    const float alibi = alibi_slope(p.max_bias, head, p.heads);
    for (uint first = sight.x / tile * tile; first < sight.y; first += tile) {
      barrier();
      if (t < tile) {
        const bool there = first + t < extent.queries;
        row_lse[t] = there ? load_float(PLACE(p.lse, extent.b, first + t, head), p.lse.dtype) : -INFINITY;
        row_dot[t] = there ? Float(PLACE(p.dots, extent.b, first + t, head)).v : 0.0;
      }
      float s[own * own], ds[own * own];
      [[unroll]] for (uint i = 0u; i < own * own; ++i) s[i] = ds[i] = 0.0;
      add_dots(s, k, extent.first, q, first);
      add_dots(ds, v, extent.first, dy, first);
      if (sees_all(extent, first, extent.first, tile)) {
        [[unroll]] for (uint i = 0u; i < own * own; ++i) {
          const uint of = 4u * own_x() + i % own;
          weigh_seen(row_lse[of], row_dot[of], s[i], ds[i]);
        }
      } else {
        float w[own * own] = s, dw[own * own] = ds;
        for (uint i = 0u; i < own * own; ++i) {
          const uint of = 4u * own_x() + i % own;
          weigh(extent, first + of, head, extent.first + own_y() + i / own * side, alibi, row_lse[of], row_dot[of], w[i], dw[i]);
        }
        [[unroll]] for (uint i = 0u; i < own * own; ++i) s[i] = w[i], ds[i] = dw[i];
      }
      share_weights(s);
      ADD_WEIGHTED(dv_total, own_dv, dy, first)
      barrier();
      share_weights(ds);
      ADD_WEIGHTED(dk_total, own_d, q, first)
    }
  }
  STORE_ROWS(p.dk, extent.b, kv_head, dk_total, own_d, p.d, extent.first, extent.keys, 1.0)
  STORE_ROWS(p.dvalues, extent.b, kv_head, dv_total, own_dv, p.dv, extent.first, extent.keys, 1.0)
}

void main() {
  const uint rows = of_keys != 0 ? p.keys : p.queries, heads = of_keys != 0 ? p.kv_heads : p.heads, tiles = tiles_of(tile, rows);
  FOR_EACH_ROW(item, tiles * heads) {
    const uint number = item / heads, head = item % heads;
    const Extent extent = extent_of(of_keys != 0 ? number : tiles - 1u - number, tile, rows);  // long ones first
    if (extent.first >= (of_keys != 0 ? extent.keys : extent.queries)) continue;
    if (of_keys != 0) make_keys(extent, head);
    else make_queries(extent, head);
  }
}
