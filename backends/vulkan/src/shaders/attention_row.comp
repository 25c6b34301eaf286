#version 460
// Attention of one row over paged keys of floats, with what rope_kv.comp does (chain_attention.glsl).
//
// Few keys: a workgroup a head. More: a workgroup has several heads of a key head and a part of its keys, so that the card is full, and a key that
// one subgroup reads is at hand for the others. Each part leaves its sums in memory; the last of a group of heads that ends joins them in the order
// of the parts, and leaves the group's counter 0. How many parts there are follows from the position, so that a recording serves every length.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "prelude.glsl"
#include "math.glsl"
layout(constant_id = 1) const int k_dtype = F16;
layout(constant_id = 2) const int v_dtype = F16;
layout(constant_id = 3) const int most_d = 8;  // elements of a head
layout(constant_id = 4) const int key_lanes = 8;  // that share a key
layout(constant_id = 5) const int most_subgroups = 16;  // of a workgroup
layout(constant_id = 6) const int page_positions = 16;
layout(constant_id = 7) const int k_stride = 16;  // bytes from position to position
layout(constant_id = 8) const int v_stride = 16;
layout(constant_id = 9) const int key_elements = 8;  // of a head
layout(constant_id = 10) const int value_elements = 8;
layout(constant_id = 11) const int pairs = 0;  // that turn
layout(constant_id = 12) const int turn_mode = 0;
layout(constant_id = 13) const int window = 0;  // 0: none
layout(constant_id = 14) const int softcap_bits = 0;  // of an f32, 0: none
layout(constant_id = 15) const int table_stride = 0;  // bytes of the turns of a position
layout(constant_id = 16) const int most_heads = 1;  // of a workgroup, a power of two
layout(constant_id = 17) const int most_parts = 1;  // of the keys
layout(constant_id = 18) const int few_keys = 0;  // that the one workgroup of a head has at most
layout(constant_id = 19) const int query_heads = 1;
layout(constant_id = 20) const int key_heads = 1;
layout(constant_id = 21) const int slots = 1;  // sequences
layout(constant_id = 22) const int scale_bits = 0;  // of an f32
PUSHED(AttentionRowParams)
#define MISSES -1.0  // the sum of a part that has a page out of range

uint subgroup_lanes, lane_of_subgroup;
uint together = 1u, parts_at_most = 1u;  // heads of a workgroup; parts of the keys
shared vec4 pool[most_subgroups * most_d / 4];
shared float share_of_part[most_heads * most_parts], sum_of_head[most_heads];
shared uint last;

// What the parts leave for the one that joins them, which other workgroups read.
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer PartFloat { float v; };
layout(buffer_reference, std430, buffer_reference_align = 8) coherent buffer PartPair { vec2 v; };
layout(buffer_reference, std430, buffer_reference_align = 16) coherent buffer PartFour { vec4 v; };

void group_barrier() { barrier(); }
uvec4 words_at(uint64_t at) { return Uint4(at).v; }
uvec2 look(uint word) { return uvec2(Uint(p.x + uint64_t(word) * 4ul).v, 0u); }
bool has_softcap() { return softcap_bits != 0; }
uint64_t attention_k_cache() { return p.k_cache; }
uint64_t attention_v_cache() { return p.v_cache; }
uint64_t attention_block_table() { return p.block_table; }
uint64_t attention_position() { return p.position; }
uint64_t attention_row_slot() { return p.row_slot; }
uint64_t attention_table() { return p.table; }
uint64_t attention_y() { return p.y; }
uint attention_k_page() { return p.k_page; }
uint attention_k_head() { return p.k_head; }
uint attention_v_page() { return p.v_page; }
uint attention_v_head() { return p.v_head; }
int64_t attention_window() { return int64_t(window); }
int64_t attention_table_stride() { return int64_t(table_stride); }
uint attention_q_word() { return p.q_word; }
uint attention_k_word() { return p.k_word; }
uint attention_v_word() { return p.v_word; }
uint attention_heads() { return uint(query_heads); }
uint attention_kv_heads() { return uint(key_heads); }
uint attention_d() { return uint(key_elements); }
uint attention_dv() { return uint(value_elements); }
uint attention_pairs() { return uint(pairs); }
uint attention_parts() { return parts_at_most; }
int attention_pages() { return p.pages; }
int attention_sequences() { return slots; }
int attention_pages_a_sequence() { return p.pages_a_sequence; }
int attention_positions() { return p.positions; }
int attention_mode() { return turn_mode; }
float attention_scale() { return intBitsToFloat(scale_bits); }
float attention_softcap() { return intBitsToFloat(softcap_bits); }


uint heads_together() { return together; }
uint least_keys();
float of_head(float x, uint h) { return subgroupShuffle(x, h); }
float sum_of_subgroups(float x) {
  for (uint l = together; l < subgroup_lanes; l *= 2u) x += subgroupShuffleXor(x, l);
  return x;
}

/// Groups of heads that are a workgroup's; which one a head is in.
uint groups_of_key_head() { return (attention_heads() / attention_kv_heads() + together - 1u) / together; }
uint group_of(uint head) {
  const uint sharing = attention_heads() / attention_kv_heads();
  return head / sharing * groups_of_key_head() + head % sharing / together;
}
/// Where a part lies: of each group most_parts times the values of its heads, and behind those of all, for each head, its largest score and sum.
uint kept_part = 0u;
uint64_t values_of(uint part_of_all) { return p.parts + uint64_t(part_of_all) * uint64_t(uint(most_heads) * attention_dv()) * 4ul; }
uint64_t sums_of(uint part_of_all, uint h) {
  const uint all = attention_kv_heads() * groups_of_key_head() * uint(most_parts);
  return values_of(all) + uint64_t(part_of_all * uint(most_heads) + h) * 8ul;
}
void keep_value(uint part, uint i, float v) { PartFloat(values_of(kept_part + part) + uint64_t(i) * 4ul).v = v; }
void keep_sum(uint part, uint h, float most, float sum) { PartPair(sums_of(kept_part + part, h)).v = vec2(most, sum); }
void join_parts(uint part, uint head, uint heads, uint used);

#define ALONE
#include "maximum.glsl"
#include "chain_attention.glsl"

uint least_keys() { return gl_NumSubgroups / together * (subgroup_lanes / uint(key_lanes)) * uint(steps_at_once); }  // what a workgroup has at once

/// By the workgroup that ends last of those that have a part of these heads.
void join_parts(uint part, uint head, uint heads, uint used) {
  memoryBarrierBuffer();
  group_barrier();
  const uint64_t counter = p.counters + uint64_t(group_of(head)) * 4ul;
  if (gl_LocalInvocationID.x == 0u) last = uint(atomicAdd(Uint(counter).v, 1u) + 1u == used);
  group_barrier();
  if (last == 0u) return;
  memoryBarrierBuffer();
  if (gl_LocalInvocationID.x == 0u) atomicExchange(Uint(counter).v, 0u);
  for (uint h = gl_SubgroupID; h < heads; h += gl_NumSubgroups) {
    float most = -INFINITY, sum = 0.0, least = 0.0;
    for (uint q = lane_of_subgroup; q < used; q += subgroup_lanes) most = larger_or_nan(most, PartPair(sums_of(kept_part + q, h)).v.x);
    for (uint l = 1u; l < subgroup_lanes; l *= 2u) {
      const float there = subgroupShuffleXor(most, l);
      most = larger_or_nan(most, there);
    }
    for (uint q = lane_of_subgroup; q < used; q += subgroup_lanes) {
      const vec2 found = PartPair(sums_of(kept_part + q, h)).v;
      const float share = found.x == -INFINITY ? 0.0 : exp_below(found.x - most);
      share_of_part[h * uint(most_parts) + q] = share;
      sum += share * found.y;
      least = found.y < 0.0 ? found.y : least;
    }
    for (uint l = 1u; l < subgroup_lanes; l *= 2u) sum += subgroupShuffleXor(sum, l);
    least = subgroupMin(least);
    if (lane_of_subgroup == 0u) sum_of_head[h] = least < 0.0 ? 0.0 : sum;
  }
  group_barrier();
  // Four values an invocation, and where there are more invocations than fours, parts in turn; `pool` has room for each.
  const uint fours_of_head = attention_dv() / 4u, fours = heads * fours_of_head, turns = max(gl_WorkGroupSize.x / fours, 1u),
             slices = min(turns, uint(most_subgroups * most_d / 4) / fours);
  const uint loads = 4u;  // under way
  for (uint t = gl_LocalInvocationID.x; t < slices * fours; t += gl_WorkGroupSize.x) {
    const uint slice = t / fours, c = t - slice * fours, h = c / fours_of_head;
    vec4 sum = vec4(0.0);
    for (uint first = slice; first < used; first += slices * loads) {
      vec4 found[loads];
      [[unroll]] for (uint j = 0u; j < loads; ++j)
        found[j] = PartFour(values_of(kept_part + min(first + j * slices, used - 1u)) + uint64_t(c) * 16ul).v;
      [[unroll]] for (uint j = 0u; j < loads; ++j) {
        const uint q = first + j * slices;
        const float share = q < used ? share_of_part[h * uint(most_parts) + q] : 0.0;
        if (share != 0.0) sum += share * found[j];
      }
    }
    pool[t] = sum;
  }
  group_barrier();
  for (uint c = gl_LocalInvocationID.x; c < fours; c += gl_WorkGroupSize.x) {
    vec4 sum = pool[c];
    for (uint slice = 1u; slice < slices; ++slice) sum += pool[slice * fours + c];
    const float all = sum_of_head[c / fours_of_head];
    Float4(p.y + uint64_t(head) * uint64_t(attention_dv()) * 4ul + uint64_t(c) * 16ul).v = all == 0.0 ? vec4(0.0) : sum / all;
  }
}

void main() {
  subgroup_lanes = subgroupAdd(1u);
  lane_of_subgroup = subgroupExclusiveAdd(1u);
  look_up_position();
  bool wrong;
  const uvec2 seen = seen_keys(wrong);
  uint head = gl_WorkGroupID.x, part = 0u;
  if (most_parts > 1 && seen.y - seen.x > uint(few_keys)) {
    together = uint(most_heads);
    parts_at_most = uint(most_parts);
    const uint groups = attention_kv_heads() * groups_of_key_head(), group = gl_WorkGroupID.x % groups;
    part = gl_WorkGroupID.x / groups;
    if (part >= keys_of(part).parts) return;
    head = group / groups_of_key_head() * (attention_heads() / attention_kv_heads()) + group % groups_of_key_head() * together;
    kept_part = group * uint(most_parts);
  } else if (head >= attention_heads()) {
    return;
  }
  if (gl_LocalInvocationID.x == 0u) fault = 0u;
  group_barrier();
  look_up_pages(head, part);
  attend_part(0u, 0u, head, part);
}
