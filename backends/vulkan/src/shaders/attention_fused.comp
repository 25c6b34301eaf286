#version 460
// Causal attention over paged keys of floats, a workgroup a (row, head). Each subgroup takes keys in turn, four at a time; its lanes share the elements
// of a head by fours. What the subgroups found is joined at the end.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "prelude.glsl"
#include "math.glsl"
#include "maximum.glsl"
#include "rows_together.glsl"
layout(constant_id = 1) const int k_dtype = F16;
layout(constant_id = 2) const int v_dtype = F16;
layout(constant_id = 3) const int fours = 1;  // of a lane
layout(constant_id = 4) const int rotates = 0;   // 1: of one row, what rope_kv.comp does is done here: the first head that shares a key writes it to the cache
layout(constant_id = 5) const uint tile_rows = 0;  // of attention_matrix.comp, which has the rows that many neighbours share a sequence with; 0: none
STORED(AttentionParams)
#define p (ParamsAt(stored).params)
#define MOST_SUBGROUPS 64
#define MOST_VALUES 256
#define MOST_FOURS (MOST_VALUES / 4)
#define MOST_PAGES 512  // of a sequence, that are looked up once for all subgroups; those behind them are looked up by each
const int keys_at_once = 4;
const int parts_at_once = 8;  // subgroups whose sums are joined in one go

shared float found_most[MOST_SUBGROUPS], found_sum[MOST_SUBGROUPS];
shared vec4 found_total[parts_at_once * MOST_FOURS], joined[MOST_FOURS];
shared int page_at[MOST_PAGES];
shared vec4 new_query[MOST_FOURS], new_key[MOST_FOURS], new_value[MOST_FOURS];
shared uint fault;

layout(buffer_reference, std430, buffer_reference_align = 8) buffer UintPair8 { uvec2 v; };

vec4 four_at(uint64_t row, int dtype, uint i) {
  if (dtype == F32) return Float4(row + uint64_t(i) * 4ul).v;
  const uvec2 w = UintPair8(row + uint64_t(i) * 2ul).v;
  if (dtype == BF16) return uintBitsToFloat(uvec4(w.x << 16, w.x & 0xffff0000u, w.y << 16, w.y & 0xffff0000u));
  return vec4(unpackHalf2x16(w.x), unpackHalf2x16(w.y));
}

float rounded(int dtype, float x) {
  return dtype == F32 ? x : dtype == F16 ? half_to_float(float_to_half(x)) : bf16_to_float(float_to_bf16(x));
}

/// The row's query and its key rotated, key and value as the cache holds them, which `keeper` writes.
void rotate(uint head, uint kv_head, int position, int slot, bool keeper) {
  const uint lane = gl_LocalInvocationID.x, units = p.d - p.pairs;
  const bool inside = position >= 0 && position < p.positions;
  int page = -1;
  if (position >= 0 && position / p.page < p.pages_a_sequence && slot >= 0 && slot < p.sequences)
    page = Int(p.block_table + (uint64_t(slot) * uint64_t(p.pages_a_sequence) + uint64_t(position / p.page)) * 4ul).v;
  const bool there = page >= 0 && page < p.pages, writes = keeper && there;
  const uint64_t at = uint64_t(max(position, 0) % p.page);
  if (keeper && lane == 0u && (!inside || (!there && position != -1))) raise(p.faults, FAULT_INDEX_RANGE);
  const uint64_t to_key = p.k_cache + uint64_t(int64_t(max(page, 0)) * p.k_page + int64_t(kv_head) * p.k_head) + at * uint64_t(p.k_position);
  const uint64_t to_value = p.v_cache + uint64_t(int64_t(max(page, 0)) * p.v_page + int64_t(kv_head) * p.v_head) + at * uint64_t(p.v_position);
  FOR_EACH_LANE(item, 2u * units) {
    const bool key = item >= units;
    const uint unit = key ? item - units : item;
    const uint64_t x = key ? p.new_k + uint64_t(kv_head * p.d) * 4ul : p.q + uint64_t(head * p.d) * 4ul;
    uint first = 2u * p.pairs + (unit - p.pairs), second = first;
    if (unit < p.pairs) {
      first = p.mode == 0 ? 2u * unit : unit;
      second = p.mode == 0 ? 2u * unit + 1u : unit + p.pairs;
    }
    float a = load_packed(x, F32, first), b = load_packed(x, F32, second);
    if (!inside) {
      a = b = 0.0;
    } else if (unit < p.pairs) {
      const uint64_t turn = p.table + uint64_t(int64_t(position) * p.table_stride) + uint64_t(unit) * 8ul;
      const float cosine = Float(turn).v, sine = Float(turn + 4ul).v, turned = a * cosine - b * sine;
      b = a * sine + b * cosine;
      a = turned;
    }
    if (key) {
      new_key[first / 4u][first % 4u] = rounded(k_dtype, a);
      new_key[second / 4u][second % 4u] = rounded(k_dtype, b);
      if (!writes) continue;
      store_packed(to_key, k_dtype, first, a);
      if (second != first) store_packed(to_key, k_dtype, second, b);
    } else {
      new_query[first / 4u][first % 4u] = a;
      new_query[second / 4u][second % 4u] = b;
    }
  }
  FOR_EACH_LANE(c, p.dv) {
    const float v = load_packed(p.new_v, F32, kv_head * p.dv + c);
    new_value[c / 4u][c % 4u] = rounded(v_dtype, v);
    if (writes) store_packed(to_value, v_dtype, c, v);
  }
}

void attend(uint t, uint head) {
  const uint lanes = subgroupAdd(1u), lane = subgroupExclusiveAdd(1u), part = gl_SubgroupID, parts = gl_NumSubgroups;
  if (tile_rows != 0 && subgroupAdd(rows_of_its_sequence(p.row_slot, t, p.rows, tile_rows, lane, lanes)) >= least_rows_together) return;
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
  if (rotates != 0) rotate(head, kv_head, position, slot, head % (p.heads / p.kv_heads) == 0u);
  barrier();
  const uint64_t table = p.block_table + uint64_t(max(slot, 0)) * uint64_t(p.pages_a_sequence) * 4ul;
  if (begin < end) {  // every page that is needed has to be there
    bool missing = false;
    for (uint page = begin / uint(p.page) + gl_LocalInvocationID.x; page * uint(p.page) < end; page += gl_WorkGroupSize.x) {
      const int at = Int(table + uint64_t(page) * 4ul).v;
      if (page < uint(MOST_PAGES)) page_at[page] = at;
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
    query[i] = c < p.d ? (rotates != 0 ? new_query[c / 4u] : four_at(q, F32, c)) * p.scale : vec4(0.0);
    total[i] = vec4(0.0);
  }
  float most = -INFINITY, sum = 0.0;
  for (uint first = begin + part * uint(keys_at_once); first < end; first += parts * uint(keys_at_once)) {
    uint64_t k_row[keys_at_once], v_row[keys_at_once];
    float score[keys_at_once];
    bool fresh[keys_at_once];  // not in the cache yet
    [[unroll]] for (int j = 0; j < keys_at_once; ++j) {
      const uint key = min(first + uint(j), end - 1u), in_table = key / uint(p.page), at = key % uint(p.page);
      const uint page = uint(in_table < uint(MOST_PAGES) ? page_at[in_table] : Int(table + uint64_t(in_table) * 4ul).v);
      fresh[j] = rotates != 0 && key == uint(position);
      k_row[j] = p.k_cache + uint64_t(int64_t(page) * p.k_page + int64_t(kv_head) * p.k_head + int64_t(at) * p.k_position);
      v_row[j] = p.v_cache + uint64_t(int64_t(page) * p.v_page + int64_t(kv_head) * p.v_head + int64_t(at) * p.v_position);
      score[j] = 0.0;
    }
    [[unroll]] for (int i = 0; i < fours; ++i) {
      const uint c = (lane + uint(i) * lanes) * 4u;
      if (c >= p.d) continue;
      [[unroll]] for (int j = 0; j < keys_at_once; ++j) score[j] += dot(query[i], fresh[j] ? new_key[c / 4u] : four_at(k_row[j], k_dtype, c));
    }
    vec4 value[fours * keys_at_once];
    [[unroll]] for (int i = 0; i < fours; ++i) {
      const uint c = (lane + uint(i) * lanes) * 4u;
      [[unroll]] for (int j = 0; j < keys_at_once; ++j) value[i * keys_at_once + j] = c >= p.dv ? vec4(0.0) : fresh[j] ? new_value[c / 4u] : four_at(v_row[j], v_dtype, c);
    }
    float now = most;
    [[unroll]] for (int j = 0; j < keys_at_once; ++j) {
      score[j] = subgroupAdd(score[j]);
      if (p.softcap > 0.0) score[j] = p.softcap * tanh_of(score[j] / p.softcap);
      if (first + uint(j) >= end) score[j] = -INFINITY;
      now = larger_or_nan(now, score[j]);
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
  for (uint s = 0u; s < parts; ++s) best = larger_or_nan(best, found_most[s]);
  for (uint s = 0u; s < parts; ++s) all += found_most[s] == -INFINITY ? 0.0 : found_sum[s] * exp_of(found_most[s] - best);
  const float share = most == -INFINITY ? 0.0 : exp_of(most - best);
  for (uint from = 0u; from < parts; from += uint(parts_at_once)) {
    const uint to = min(from + uint(parts_at_once), parts);
    if (part >= from && part < to) {
      [[unroll]] for (int i = 0; i < fours; ++i) {
        const uint c = lane + uint(i) * lanes;
        if (c < p.dv / 4u) found_total[(part - from) * uint(MOST_FOURS) + c] = share == 0.0 ? vec4(0.0) : total[i] * share;
      }
    }
    barrier();
    FOR_EACH_LANE(c, p.dv / 4u) {  // in the order of the parts, so that the order of the sum is fixed
      vec4 sum_of_parts = from == 0u ? vec4(0.0) : joined[c];
      for (uint s = from; s < to; ++s) sum_of_parts += found_total[(s - from) * uint(MOST_FOURS) + c];
      joined[c] = sum_of_parts;
    }
    barrier();
  }
  FOR_EACH_LANE(i, p.dv) store_packed(y, p.y_dtype, i, all == 0.0 ? 0.0 : joined[i / 4u][i % 4u] / all);
  barrier();
}

void main() {
  for (uint t = gl_WorkGroupID.y; t < p.rows; t += gl_NumWorkGroups.y) attend(t, gl_WorkGroupID.x);
}
