#version 460
// Attention over dense keys and within packed examples: a workgroup a (batch, query, head), or a (row, head). A round takes as many keys as there
// are lanes, as in attention.comp. Rounds go from the first key that the query sees to the last.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "prelude.glsl"
#include "math.glsl"
#include "group.glsl"
#include "alibi.glsl"
STORED(DenseParams)
#define p (ParamsAt(stored).params)
#include "dense.glsl"

shared float weight[gl_WorkGroupSize.x];

void attend(Extent extent, uint head) {
  const uint b = extent.b, query = extent.row;
  const uvec2 keys = keys_in_sight(extent);
  const uint lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x, kv_head = head / (p.heads / p.kv_heads);
  const uint64_t q = PLACE(p.q, b, query, head), y = PLACE(p.y, b, query, head);
  const float alibi = alibi_slope(p.max_bias, head, p.heads);
  float sink = -INFINITY;
  if (p.sinks != 0ul) sink = load_float(p.sinks + uint64_t(head) * uint64_t(p.sink_step), p.sink_dtype);
  float most = sink, sum = 0.0;
  float total[most_parts];
  [[unroll]] for (uint i = 0u; i < most_parts; ++i) total[i] = 0.0;
  for (uint first = keys.x; first < keys.y; first += lanes) {
    const uint key = first + lane;
    float score = -INFINITY;
    if (key < keys.y && !hidden(b, query, head, key)) {
      const uint64_t k = PLACE(p.k, b, key, kv_head);
      float product = 0.0, unused;
      for (uint i = 0u; i < p.d; ++i) product = fma(ELEMENT(q, p.q, i), ELEMENT(k, p.k, i), product);
      score = finished_score(product, b, query, head, key, alibi, unused);
    }
    const float before = most;
    most = larger(group_max(score), most);
    const float shift = most == -INFINITY ? 0.0 : most, kept = before == -INFINITY ? 0.0 : exp_of(before - shift);
    const float w = score == -INFINITY ? 0.0 : exp_of(score - shift);
    weight[lane] = w;
    sum = sum * kept + group_sum(w);
    barrier();
    [[unroll]] for (uint i = 0u; i < most_parts; ++i) total[i] *= kept;
    for (uint j = 0u; j < min(lanes, keys.y - first); ++j) {
      const float wj = weight[j];
      if (wj == 0.0) continue;
      const uint64_t v = PLACE(p.v, b, first + j, kv_head);
      [[unroll]] for (uint i = 0u; i < most_parts; ++i) {
        const uint c = lane + i * lanes;
        if (c < p.dv) total[i] = fma(wj, ELEMENT(v, p.v, c), total[i]);
      }
    }
    barrier();
  }
  const float all = sum + (sink == -INFINITY ? 0.0 : exp_of(sink - most));
  [[unroll]] for (uint i = 0u; i < most_parts; ++i) {
    const uint c = lane + i * lanes;
    if (c < p.dv) store_float(y + uint64_t(int64_t(c) * int64_t(p.y.step)), p.y.dtype, sum == 0.0 ? 0.0 : total[i] / all);
  }
  if (p.lse.data != 0ul && lane == 0u) store_float(PLACE(p.lse, b, query, head), p.lse.dtype, all == 0.0 ? -INFINITY : most + log_of(all));
}

void main() {
  FOR_EACH_ROW(row, p.batch * p.queries * p.heads) attend(extent_of(row / p.heads / p.queries, row / p.heads % p.queries), row % p.heads);
}
