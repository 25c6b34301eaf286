#version 460
// Attention of one row over paged keys of floats, a workgroup a head, with what rope_kv.comp does (chain_attention.glsl). Constants 1, 2: dtypes of
// keys and values; 3: elements of a head; 4: lanes that share a key; 5: subgroups of a workgroup; 6, 7, 8: positions of a page, bytes from position to
// position of keys and values; 9, 10: elements of a key and of a value; 11: pairs that turn; 12: which; 13: window, 0 for none; 14: bits of the scores'
// cap; 15: bytes of a position's turns.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "prelude.glsl"
#include "math.glsl"
layout(constant_id = 1) const int k_dtype = F16;
layout(constant_id = 2) const int v_dtype = F16;
layout(constant_id = 3) const int most_d = 8;
layout(constant_id = 4) const int key_lanes = 8;
layout(constant_id = 5) const int most_subgroups = 16;
layout(constant_id = 6) const int page_positions = 16;
layout(constant_id = 7) const int k_stride = 16;
layout(constant_id = 8) const int v_stride = 16;
layout(constant_id = 9) const int key_elements = 8;
layout(constant_id = 10) const int value_elements = 8;
layout(constant_id = 11) const int pairs = 0;
layout(constant_id = 12) const int turn_mode = 0;
layout(constant_id = 13) const int window = 0;
layout(constant_id = 14) const int softcap_bits = 0;
layout(constant_id = 15) const int table_stride = 0;
PUSHED(AttentionRowParams)

uint subgroup_lanes, lane_of_subgroup;
shared vec4 pool[most_subgroups * most_d / 4];

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
uint attention_heads() { return p.heads; }
uint attention_kv_heads() { return p.kv_heads; }
uint attention_d() { return uint(key_elements); }
uint attention_dv() { return uint(value_elements); }
uint attention_pairs() { return uint(pairs); }
uint attention_parts() { return 1u; }
int attention_pages() { return p.pages; }
int attention_sequences() { return p.sequences; }
int attention_pages_a_sequence() { return p.pages_a_sequence; }
int attention_positions() { return p.positions; }
int attention_mode() { return turn_mode; }
float attention_scale() { return p.scale; }
float attention_softcap() { return intBitsToFloat(softcap_bits); }

#define ALONE
#include "maximum.glsl"
#include "chain_attention.glsl"

void main() {
  subgroup_lanes = subgroupAdd(1u);
  lane_of_subgroup = subgroupExclusiveAdd(1u);
  look_up_position();
  if (gl_LocalInvocationID.x == 0u) fault = 0u;
  group_barrier();
  look_up_pages(gl_WorkGroupID.x);
  attend_part(0u, 0u, gl_WorkGroupID.x, 0u);
}
