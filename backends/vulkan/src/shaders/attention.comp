#version 460
// Attention over paged keys: a workgroup a (row, head). A round takes as many keys as there are lanes: each lane scores one key, then each
// lane sums its elements of values; maximum and sum go along. Where there are more lanes than elements, groups of lanes share a round's keys and
// add up at the end. Values of more elements than the lanes sum at once take further passes over the keys, each with the same scores.
//
// Constant 1, 2: formats of keys and values; 3: lanes of a group, which divide those of the workgroup.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "prelude.glsl"
#include "math.glsl"
#include "group.glsl"
#include "alibi.glsl"
#include "blocks.glsl"
#include "paged.glsl"
layout(constant_id = 1) const int k_format = F32;
layout(constant_id = 2) const int v_format = F32;
layout(constant_id = 3) const int columns = 32;
STORED(AttentionParams)
#define p (ParamsAt(stored).params)
const uint most_parts = 8u;  // elements of the output that a lane sums

shared float weight[gl_WorkGroupSize.x];
shared uint fault;

int page_of(int slot, uint key) {
  return Int(p.block_table + (uint64_t(slot) * uint64_t(p.pages_a_sequence) + uint64_t(key / uint(p.page))) * 4ul).v;
}

float score_of(uint64_t q, uint64_t row) {
  float sum = 0.0;
  if (p.d % 16u == 0u) {
    const uint n = block_elements(k_format), bytes = block_bytes(k_format);
    for (uint first = 0u; first < p.d; first += 16u) {
      const Group group = open_group(row + uint64_t(first / n * bytes), k_format, first % n);
      for (uint j = 0u; j < 8u; ++j) {
        const vec2 w = pair_of(group, k_format, j);
        sum = fma(load_packed(q, p.q_dtype, first + 2u * j), w.x, sum);
        sum = fma(load_packed(q, p.q_dtype, first + 2u * j + 1u), w.y, sum);
      }
    }
  } else {
    for (uint i = 0u; i < p.d; ++i) sum = fma(load_packed(q, p.q_dtype, i), row_element(row, k_format, i), sum);
  }
  return sum;
}

/// The elements of the output from `from` on that the lanes sum at once.
void attend(uint t, uint head, uint from) {
  barrier();  // what the pass before shared has been read
  const uint lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x, column = lane % uint(columns), group = lane / uint(columns),
             groups = lanes / uint(columns);
  const uint64_t q = p.q + uint64_t(int64_t(t) * p.q_row + int64_t(head) * p.q_head);
  const uint64_t y = p.y + uint64_t(int64_t(t) * p.y_row + int64_t(head) * p.y_head);
  const int position = Int(p.position + uint64_t(t) * 4ul).v, slot = Int(p.row_slot + uint64_t(t) * 4ul).v;
  const uint kv_head = head / (p.heads / p.kv_heads);
  const bool known = slot >= 0 && slot < p.sequences;
  int64_t end = 0l, begin = 0l;
  if (position != -1 && known) {
    end = p.causal != 0 ? int64_t(position) + 1l : p.kv_len != 0ul ? int64_t(Int(p.kv_len + uint64_t(slot) * 4ul).v) : int64_t(p.pages_a_sequence) * int64_t(p.page);
    if (p.window > 0l) begin = max(0l, int64_t(position) - p.window + 1l);
    end = max(end, 0l);
  }
  // Every page that is needed has to be there.
  if (lane == 0u) fault = uint(position != -1 && !known) | uint(position < -1);
  barrier();
  const int64_t room = int64_t(p.pages_a_sequence) * int64_t(p.page);
  if (begin < end) {
    if (end > room && lane == 0u) atomicOr(fault, 1u);
    end = min(end, room);
    for (uint page = uint(begin / int64_t(p.page)) + lane; int64_t(page) * int64_t(p.page) < end; page += lanes) {
      const int id = page_of(slot, page * uint(p.page));
      if (id < 0 || id >= p.pages) atomicOr(fault, 1u);
    }
  }
  barrier();
  const bool bad = fault != 0u;
  if (bad && lane == 0u && head == 0u) raise(p.faults, FAULT_INDEX_RANGE);
  if (bad) end = begin;
  const float alibi = alibi_slope(p.max_bias, head, p.heads);
  float sink = -INFINITY;
  if (p.sinks != 0ul) sink = load_float(p.sinks + uint64_t(head) * uint64_t(p.sink_step), p.sink_dtype);
  float most = sink, sum = 0.0;
  float total[most_parts];
  [[unroll]] for (uint i = 0u; i < most_parts; ++i) total[i] = 0.0;
  for (int64_t first = begin; first < end; first += int64_t(lanes)) {
    const int64_t key = first + int64_t(lane);
    float score = -INFINITY;
    if (key < end) {
      float m = 0.0;
      if (p.mask != 0ul) {
        const uint64_t at = p.mask + uint64_t(int64_t(t) * p.mask_row);
        if (key >= p.mask_columns) m = -INFINITY;
        else if (p.mask_dtype == U8) m = byte_at(at + uint64_t(key)) == 0u ? -INFINITY : 0.0;
        else m = load_packed(at, p.mask_dtype, uint(key));
      }
      if (m != -INFINITY) {
        const uint64_t row = p.k_cache + uint64_t(int64_t(page_of(slot, uint(key))) * p.k_page + int64_t(kv_head) * p.k_head + int64_t(uint(key) % uint(p.page)) * p.k_position);
        score = score_of(q, row) * p.scale;
        if (p.softcap > 0.0) score = p.softcap * tanh_of(score / p.softcap);
        if (p.mask != 0ul && p.mask_dtype != U8) score += alibi * m;
      }
    }
    const float before = most;
    most = larger(group_max(score), most);
    const float shift = most == -INFINITY ? 0.0 : most;
    const float kept = before == -INFINITY ? 0.0 : exp_of(before - shift);
    const float w = score == -INFINITY ? 0.0 : exp_of(score - shift);
    weight[lane] = w;
    sum = sum * kept + group_sum(w);
    barrier();
    [[unroll]] for (uint i = 0u; i < most_parts; ++i) total[i] *= kept;
    const uint count = uint(min(end - first, int64_t(lanes)));
    for (uint j = group; j < count; j += groups) {
      const float wj = weight[j];
      if (wj == 0.0) continue;  // what is not seen is not loaded into arithmetic
      const uint at = uint(first) + j;
      const uint64_t row = p.v_cache + uint64_t(int64_t(page_of(slot, at)) * p.v_page + int64_t(kv_head) * p.v_head + int64_t(at % uint(p.page)) * p.v_position);
      [[unroll]] for (uint i = 0u; i < most_parts; ++i) {
        const uint c = from + column + i * uint(columns);
        if (c < p.dv) total[i] = fma(wj, row_element(row, v_format, c), total[i]);
      }
    }
    barrier();
  }
  if (sink != -INFINITY) sum += exp_of(sink - most);
  [[unroll]] for (uint i = 0u; i < most_parts; ++i) {
    const uint c = from + column + i * uint(columns);
    if (groups > 1u) {
      barrier();
      weight[lane] = total[i];
      barrier();
      for (uint g = 1u; g < groups && group == 0u; ++g) total[i] += weight[g * uint(columns) + column];
    }
    if (group == 0u && c < p.dv) store_packed(y, p.y_dtype, c, sum == 0.0 ? 0.0 : total[i] / sum);
  }
}

void main() {
  for (uint t = gl_WorkGroupID.y; t < p.rows; t += gl_NumWorkGroups.y)
    for (uint from = 0u; from < p.dv; from += most_parts * uint(columns)) attend(t, gl_WorkGroupID.x, from);
}
