#version 460
// Logits with penalties and biases, and what a draw from them begins with: a workgroup a part of a row, which leaves its best, the first place of
// that, the sum of weights relative to it and how many logits are above -inf, as sort.comp's own parts do.
//
// In place of three launches, of penalties, biases and parts, and the barriers between them: a row's logits are read and written once.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "prelude.glsl"
#include "math.glsl"
#include "group.glsl"
#include "logit_changes.glsl"
PUSHED(SamplePartsParams)

const int loads_at_once = 8;
shared uint first_place, all_finite;

void main() {
  const uint row = gl_WorkGroupID.y, part = gl_WorkGroupID.x, lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x;
  const uint share = (p.n + p.parts - 1u) / p.parts, begin = min(p.n, part * share), end = min(p.n, begin + share);
  const uint64_t x = p.x + uint64_t(int64_t(row) * p.x_row), y = p.y + uint64_t(int64_t(row) * p.y_row);
  const uint64_t entries = uint64_t(row) * uint64_t(p.bias_entries) * 4ul, tokens = p.bias_tokens + entries;
  const Seen seen = seen_of(p.history, p.lengths, p.params, row, p.history_entries);
  const bool changes = names_any(tokens, p.bias_entries);
  float best = -INFINITY, sum = 0.0;
  uint place = 0xffffffffu, finite = 0u;
  for (uint at = begin + lane; at < end; at += lanes * uint(loads_at_once)) {
    float v[loads_at_once];
    [[unroll]] for (int j = 0; j < loads_at_once; ++j) {
      const uint i = at + uint(j) * lanes;
      v[j] = i < end ? Float(x + uint64_t(i) * 4ul).v : -INFINITY;
    }
    const float before = best;
    [[unroll]] for (int j = 0; j < loads_at_once; ++j) {
      const uint i = at + uint(j) * lanes;
      if (i < end) {
        if (seen.first < seen.last) v[j] = penalized(seen, i, p.n, v[j], p.faults);
        if (changes) v[j] = biased(tokens, p.biases + entries, p.bias_entries, i, p.n, v[j], p.faults);
        Float(y + uint64_t(i) * 4ul).v = v[j];
        if (v[j] > best) {
          best = v[j];
          place = i;
        }
        if (v[j] > -INFINITY) ++finite;
      }
    }
    if (best > -INFINITY) {
      if (best > before) sum = before == -INFINITY ? 0.0 : sum * exp_of(before - best);
      [[unroll]] for (int j = 0; j < loads_at_once; ++j)
        if (v[j] > -INFINITY) sum += exp_of(v[j] - best);
    }
  }
  if (lane == 0u) {
    first_place = 0xffffffffu;
    all_finite = 0u;
  }
  const float top = group_max(best);
  const float weights = group_sum(best == -INFINITY ? 0.0 : sum * exp_of(best - top));
  barrier();
  if (best == top && place != 0xffffffffu) atomicMin(first_place, place);
  if (finite > 0u) atomicAdd(all_finite, finite);
  barrier();
  if (lane == 0u) Uint4(p.found + uint64_t(row * p.parts + part) * 16ul).v = uvec4(floatBitsToUint(top), floatBitsToUint(weights), first_place, all_finite);
}
