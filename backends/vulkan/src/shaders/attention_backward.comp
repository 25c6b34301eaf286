#version 460
// Gradients of attention_dense and attention_ragged, with the probabilities computed again from lse:
//   P = exp(s - lse), d = dy . y, dP = dy v^T, dv = P^T dy.
//   dS = P (dP - d), through softcap and scale. dq = dS k, dk = dS^T q.
//
// Constant 2: 0 a workgroup a row of q makes d and dq; 1 a workgroup a row of k makes dk and dv from the queries of its heads that see it. Rounds
// take as many keys, or queries, as there are lanes. What a query does not see has weights of exactly 0 and is not loaded into arithmetic.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "prelude.glsl"
#include "math.glsl"
#include "group.glsl"
#include "alibi.glsl"
layout(constant_id = 2) const int of_keys = 0;
STORED(DenseParams)
#define p (ParamsAt(stored).params)
#include "dense.glsl"

shared float d_score[gl_WorkGroupSize.x];
shared float probability[gl_WorkGroupSize.x];


/// P and dS of one query and key that is not hidden.
void weights_of(uint b, uint query, uint head, uint key, float d, float alibi, out float w, out float ds) {
  const uint kv_head = head / (p.heads / p.kv_heads);
  const uint64_t q = PLACE(p.q, b, query, head), k = PLACE(p.k, b, key, kv_head), v = PLACE(p.v, b, key, kv_head), dy = PLACE(p.dy, b, query, head);
  const float lse = load_float(PLACE(p.lse, b, query, head), p.lse.dtype);
  float product = 0.0, d_probability = 0.0, slope;
  for (uint i = 0u; i < p.d; ++i) product = fma(ELEMENT(q, p.q, i), ELEMENT(k, p.k, i), product);
  for (uint i = 0u; i < p.dv; ++i) d_probability = fma(ELEMENT(dy, p.dy, i), ELEMENT(v, p.v, i), d_probability);
  const float score = finished_score(product, b, query, head, key, alibi, slope);
  w = lse == -INFINITY || lse == INFINITY ? 0.0 : exp_of(score - lse);
  ds = w == 0.0 ? 0.0 : w * (d_probability - d) * slope * p.scale;
}

void make_query(Extent extent, uint head) {
  const uint b = extent.b, query = extent.row;
  const uvec2 keys = keys_in_sight(extent);
  const uint lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x, kv_head = head / (p.heads / p.kv_heads);
  const uint64_t y = PLACE(p.y, b, query, head), dy = PLACE(p.dy, b, query, head);
  const float alibi = alibi_slope(p.max_bias, head, p.heads);
  float d = 0.0;
  FOR_EACH_LANE(i, p.dv) d = fma(ELEMENT(dy, p.dy, i), ELEMENT(y, p.y, i), d);
  d = group_sum(d);
  if (lane == 0u) Float(PLACE(p.dots, b, query, head)).v = d;
  float total[most_parts];
  [[unroll]] for (uint i = 0u; i < most_parts; ++i) total[i] = 0.0;
  for (uint first = keys.x; first < keys.y; first += lanes) {
    const uint key = first + lane;
    float w = 0.0, ds = 0.0;
    if (key < keys.y && !hidden(b, query, head, key)) weights_of(b, query, head, key, d, alibi, w, ds);
    d_score[lane] = ds;
    barrier();
    for (uint j = 0u; j < min(lanes, keys.y - first); ++j) {
      const float s = d_score[j];
      if (s == 0.0) continue;
      const uint64_t k = PLACE(p.k, b, first + j, kv_head);
      [[unroll]] for (uint i = 0u; i < most_parts; ++i) {
        const uint c = lane + i * lanes;
        if (c < p.d) total[i] = fma(s, ELEMENT(k, p.k, c), total[i]);
      }
    }
    barrier();
  }
  const uint64_t dq = PLACE(p.dq, b, query, head);
  [[unroll]] for (uint i = 0u; i < most_parts; ++i) {
    const uint c = lane + i * lanes;
    if (c < p.d) store_float(dq + uint64_t(int64_t(c) * int64_t(p.dq.step)), p.dq.dtype, total[i]);
  }
}

void make_key(Extent extent, uint kv_head) {
  const uint b = extent.b, key = extent.row;
  const uvec2 queries = queries_in_sight(extent);
  const uint lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x, group = p.heads / p.kv_heads, count = queries.y - queries.x,
             rows = count * group;
  float dk_total[most_parts], dv_total[most_parts];
  [[unroll]] for (uint i = 0u; i < most_parts; ++i) dk_total[i] = dv_total[i] = 0.0;
  for (uint first = 0u; first < rows; first += lanes) {
    const uint row = first + lane, head = kv_head * group + row / count, query = queries.x + row % count;
    float w = 0.0, ds = 0.0;
    if (row < rows && !hidden(b, query, head, key))
      weights_of(b, query, head, key, Float(PLACE(p.dots, b, query, head)).v, alibi_slope(p.max_bias, head, p.heads), w, ds);
    d_score[lane] = ds;
    probability[lane] = w;
    barrier();
    for (uint j = 0u; j < min(lanes, rows - first); ++j) {
      const float s = d_score[j], wj = probability[j];
      if (wj == 0.0) continue;
      const uint h = kv_head * group + (first + j) / count, t = queries.x + (first + j) % count;
      const uint64_t q = PLACE(p.q, b, t, h), dy = PLACE(p.dy, b, t, h);
      [[unroll]] for (uint i = 0u; i < most_parts; ++i) {
        const uint c = lane + i * lanes;
        if (c < p.d && s != 0.0) dk_total[i] = fma(s, ELEMENT(q, p.q, c), dk_total[i]);
        if (c < p.dv) dv_total[i] = fma(wj, ELEMENT(dy, p.dy, c), dv_total[i]);
      }
    }
    barrier();
  }
  const uint64_t dk = PLACE(p.dk, b, key, kv_head), dv = PLACE(p.dvalues, b, key, kv_head);
  [[unroll]] for (uint i = 0u; i < most_parts; ++i) {
    const uint c = lane + i * lanes;
    if (c < p.d) store_float(dk + uint64_t(int64_t(c) * int64_t(p.dk.step)), p.dk.dtype, dk_total[i]);
    if (c < p.dv) store_float(dv + uint64_t(int64_t(c) * int64_t(p.dvalues.step)), p.dvalues.dtype, dv_total[i]);
  }
}

void main() {
  if (of_keys == 0) {
    FOR_EACH_ROW(row, p.batch * p.queries * p.heads) make_query(extent_of(row / p.heads / p.queries, row / p.heads % p.queries), row % p.heads);
  } else {
    FOR_EACH_ROW(row, p.batch * p.keys * p.kv_heads) make_key(extent_of(row / p.kv_heads / p.keys, row / p.kv_heads % p.keys), row % p.kv_heads);
  }
}
