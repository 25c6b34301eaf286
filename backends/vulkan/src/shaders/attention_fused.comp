#version 460
// Causal attention over paged keys of floats, a workgroup a (row, head): each subgroup takes keys in turn, four at a time, its lanes share the
// elements of a head by fours; what the subgroups found is joined at the end. Constants 1, 2: dtypes of keys and values; 3: fours of a lane.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "prelude.glsl"
#include "math.glsl"
layout(constant_id = 1) const int k_dtype = F16;
layout(constant_id = 2) const int v_dtype = F16;
layout(constant_id = 3) const int fours = 1;
STORED(AttentionParams)
#define p (ParamsAt(stored).params)
#define MOST_SUBGROUPS 64
#define MOST_VALUES 256
const int keys_at_once = 4;

shared float found_most[MOST_SUBGROUPS], found_sum[MOST_SUBGROUPS];
shared float joined[MOST_VALUES];
shared uint fault;

layout(buffer_reference, std430, buffer_reference_align = 8) buffer UintPair8 { uvec2 v; };

vec4 four_at(uint64_t row, int dtype, uint i) {
  if (dtype == F32) return Float4(row + uint64_t(i) * 4ul).v;
  const uvec2 w = UintPair8(row + uint64_t(i) * 2ul).v;
  if (dtype == BF16) return uintBitsToFloat(uvec4(w.x << 16, w.x & 0xffff0000u, w.y << 16, w.y & 0xffff0000u));
  return vec4(unpackHalf2x16(w.x), unpackHalf2x16(w.y));
}

void attend(uint t, uint head) {
  const uint lanes = subgroupAdd(1u), lane = subgroupExclusiveAdd(1u), part = gl_SubgroupID, parts = gl_NumSubgroups;
  const uint64_t q = p.q + uint64_t(int64_t(t) * p.q_row + int64_t(head) * p.q_head);
  const uint64_t y = p.y + uint64_t(int64_t(t) * p.y_row + int64_t(head) * p.y_head);
  const int position = Int(p.position + uint64_t(t) * 4ul).v, slot = Int(p.row_slot + uint64_t(t) * 4ul).v;
  const uint kv_head = head / (p.heads / p.kv_heads);
  const bool known = slot >= 0 && slot < p.sequences;
  const uint room = uint(p.pages_a_sequence) * uint(p.page);
  uint end = 0u, begin = 0u;
  bool wrong = position < -1 || (position != -1 && !known);
  if (position >= 0 && known) {
    end = uint(position) + 1u;
    if (p.window > 0l) begin = uint(max(0l, int64_t(position) - p.window + 1l));
    wrong = wrong || end > room;
    end = min(end, room);
  }
  if (gl_LocalInvocationID.x == 0u) fault = uint(wrong);
  FOR_EACH_LANE(i, uint(MOST_VALUES)) joined[i] = 0.0;
  barrier();
  const uint64_t table = p.block_table + uint64_t(max(slot, 0)) * uint64_t(p.pages_a_sequence) * 4ul;
  if (begin < end) {  // every page that is needed has to be there
    bool missing = false;
    for (uint page = begin / uint(p.page) + gl_LocalInvocationID.x; page * uint(p.page) < end; page += gl_WorkGroupSize.x) {
      const int at = Int(table + uint64_t(page) * 4ul).v;
      missing = missing || at < 0 || at >= p.pages;
    }
    if (missing) atomicOr(fault, 1u);
  }
  barrier();
  if (fault != 0u) {
    if (gl_LocalInvocationID.x == 0u && head == 0u) raise(p.faults, FAULT_INDEX_RANGE);
    FOR_EACH_LANE(i, p.dv) store_packed(y, p.y_dtype, i, 0.0);
    barrier();
    return;
  }
  vec4 query[fours], total[fours];
  [[unroll]] for (int i = 0; i < fours; ++i) {
    const uint c = (lane + uint(i) * lanes) * 4u;
    query[i] = c < p.d ? four_at(q, F32, c) * p.scale : vec4(0.0);
    total[i] = vec4(0.0);
  }
  float most = -INFINITY, sum = 0.0;
  for (uint first = begin + part * uint(keys_at_once); first < end; first += parts * uint(keys_at_once)) {
    uint64_t k_row[keys_at_once], v_row[keys_at_once];
    float score[keys_at_once];
    [[unroll]] for (int j = 0; j < keys_at_once; ++j) {
      const uint key = min(first + uint(j), end - 1u), page = uint(Int(table + uint64_t(key / uint(p.page)) * 4ul).v), at = key % uint(p.page);
      k_row[j] = p.k_cache + uint64_t(int64_t(page) * p.k_page + int64_t(kv_head) * p.k_head + int64_t(at) * p.k_position);
      v_row[j] = p.v_cache + uint64_t(int64_t(page) * p.v_page + int64_t(kv_head) * p.v_head + int64_t(at) * p.v_position);
      score[j] = 0.0;
    }
    [[unroll]] for (int i = 0; i < fours; ++i) {
      const uint c = (lane + uint(i) * lanes) * 4u;
      if (c >= p.d) continue;
      [[unroll]] for (int j = 0; j < keys_at_once; ++j) score[j] += dot(query[i], four_at(k_row[j], k_dtype, c));
    }
    vec4 value[fours * keys_at_once];
    [[unroll]] for (int i = 0; i < fours; ++i) {
      const uint c = (lane + uint(i) * lanes) * 4u;
      [[unroll]] for (int j = 0; j < keys_at_once; ++j) value[i * keys_at_once + j] = c < p.dv ? four_at(v_row[j], v_dtype, c) : vec4(0.0);
    }
    float now = most;
    [[unroll]] for (int j = 0; j < keys_at_once; ++j) {
      score[j] = subgroupAdd(score[j]);
      if (p.softcap > 0.0) score[j] = p.softcap * tanh_of(score[j] / p.softcap);
      if (first + uint(j) >= end) score[j] = -INFINITY;
      now = is_nan(score[j]) ? score[j] : max(now, score[j]);
    }
    const float shift = now == -INFINITY ? 0.0 : now, kept = most == -INFINITY ? 0.0 : exp_of(most - shift);
    sum *= kept;
    [[unroll]] for (int i = 0; i < fours; ++i) total[i] *= kept;
    [[unroll]] for (int j = 0; j < keys_at_once; ++j) {
      const float w = score[j] == -INFINITY ? 0.0 : exp_of(score[j] - shift);
      sum += w;
      if (w != 0.0) {  // what is not seen is not loaded into arithmetic
        [[unroll]] for (int i = 0; i < fours; ++i) total[i] += w * value[i * keys_at_once + j];
      }
    }
    most = now;
  }
  if (lane == 0u) {
    found_most[part] = most;
    found_sum[part] = sum;
  }
  barrier();
  float best = -INFINITY, all = 0.0;
  for (uint s = 0u; s < parts; ++s) best = is_nan(found_most[s]) ? found_most[s] : max(best, found_most[s]);
  for (uint s = 0u; s < parts; ++s) all += found_most[s] == -INFINITY ? 0.0 : found_sum[s] * exp_of(found_most[s] - best);
  const float share = most == -INFINITY ? 0.0 : exp_of(most - best);
  for (uint s = 0u; s < parts; ++s) {  // one after another, so that the order of the sum is fixed
    if (s == part && share != 0.0) {
      [[unroll]] for (int i = 0; i < fours; ++i) {
        const uint c = (lane + uint(i) * lanes) * 4u;
        if (c < p.dv) {
          for (uint e = 0u; e < 4u; ++e) joined[c + e] += total[i][e] * share;
        }
      }
    }
    barrier();
  }
  FOR_EACH_LANE(i, p.dv) store_packed(y, p.y_dtype, i, all == 0.0 ? 0.0 : joined[i] / all);
  barrier();
}

void main() {
  for (uint t = gl_WorkGroupID.y; t < p.rows; t += gl_NumWorkGroups.y) attend(t, gl_WorkGroupID.x);
}
