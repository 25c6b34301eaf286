#version 460
// A stage of steps of one row: up to three products, with the norm before them and a residual or SwiGLU behind (as gemv_one.comp, gemv_floats.comp),
// or attention (as attention_fused.comp). A stage is a dispatch, its kernel made for its formats and sizes; between those of a chain there is no
// barrier, so that workgroups of the next stage are at work while those of this one end, and have asked for their first weights.
//
// A result goes to the exchange as 8 bytes, the f32 and the number of the run and stage that wrote it, and whoever wants it looks until the number
// is there: a load brings number and value together, so that nothing else has to be in order. Each stage but the first needs all that the stage
// before made. So a workgroup that writes knows that all have read what was wanted before the stage before, and words are used again. Workgroups
// begin in the order of the dispatches, so whoever waits keeps none from beginning that it waits for.
//
// A norm's factor is found beside the codes and multiplies sums. Looking is bounded: a workgroup that waits too long says so and does nothing more.
//
// Constants 1: k of a product of quantised weights; 2: of any; 3: formats, a bit each; 4, 5: dtypes of keys and values; 6: elements of a head; 7:
// lanes that share a key; 8: subgroups of a workgroup, at most; 9: 1 where products have biases, 2 where scores are capped; 10: groups of four
// floats of the pool; 11: what the stage is; 12: 1 where a product's result is silu(x b^T) * (x other_b^T); 13: 1 where the row comes as blocks of
// int8; 14: blocks that a workgroup makes at most, 0 where results go as words; 15, 16, 17: positions of a page, bytes from position to position of
// keys and values; 18, 19, 20: outputs of each product; 21, 22, 23: their formats, 0 where there is none; 24: outputs of a
// tile, 2 where they are of a gate and its up; 25: 1 where no subgroup has more than one item.
#pragma use_vulkan_memory_model
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "prelude.glsl"
#include "modes.h"
#include "math.glsl"
#include "blocks.glsl"
#include "planes.glsl"
#include "dot.glsl"
#include "units.glsl"
#define SCALES_OF_16
#include "unit_dot.glsl"
layout(constant_id = 1) const int most_k = 64;
layout(constant_id = 2) const int widest = 64;
layout(constant_id = 3) const int formats = 0;
layout(constant_id = 4) const int k_dtype = F16;
layout(constant_id = 5) const int v_dtype = F16;
layout(constant_id = 6) const int most_d = 8;
layout(constant_id = 7) const int key_lanes = 8;
layout(constant_id = 8) const int most_subgroups = 16;
layout(constant_id = 9) const int extras = 0;
layout(constant_id = 10) const int pool_fours = 1;
layout(constant_id = 11) const int kind = 0;
layout(constant_id = 12) const int paired_rows = 0;
layout(constant_id = 13) const int blocks_in = 0;
layout(constant_id = 14) const int blocks_out = 0;
layout(constant_id = 15) const int page_positions = 16;
layout(constant_id = 16) const int k_stride = 16;
layout(constant_id = 17) const int v_stride = 16;
layout(constant_id = 18) const int n0 = 0;
layout(constant_id = 19) const int n1 = 0;
layout(constant_id = 20) const int n2 = 0;
layout(constant_id = 21) const int format0 = 0;
layout(constant_id = 22) const int format1 = 0;
layout(constant_id = 23) const int format2 = 0;
layout(constant_id = 24) const int used_rows = 2;  // of a tile
layout(constant_id = 25) const int once = 0;
const int rows = 2;                               // at most
PUSHED(ChainParams)

const int lanes_of_group = int(gl_WorkGroupSize.x);
const int fours_a_lane = (widest / 4 + lanes_of_group - 1) / lanes_of_group;

shared uint stalled, missing;
shared float group_part[most_subgroups];
shared uvec4 group_code[most_k / 16];  // as in gemv_one.comp
shared vec2 group_scale[most_k / 16];
shared vec4 pool[pool_fours];  // a row in f32, or what subgroups found
const int block_fours = blocks_out > 0 ? blocks_out * 4 : 1;
shared vec4 block_value[block_fours], next_weight[block_fours];  // of the blocks that this workgroup makes
shared uint block_count[block_fours];

void group_barrier() { controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease); }

bool is_paired() { return paired_rows != 0; }
bool has_bias() { return (extras & 1) != 0; }
bool has_softcap() { return (extras & 2) != 0; }

#include "chain_stage.glsl"
#include "chain_exchange.glsl"
#include "chain_blocks.glsl"
#include "chain_product.glsl"
#include "maximum.glsl"
#include "chain_attention.glsl"

void main() {
  subgroup_lanes = subgroupAdd(1u);
  lane_of_subgroup = subgroupExclusiveAdd(1u);
  const uint lane = gl_LocalInvocationID.x, s = p.stage;
  uvec4 words;
  if (lane < STAGE_WORDS / 4u) words = Uint4(p.stages + (uint64_t(s) * (STAGE_WORDS / 4u) + lane) * 16ul).v;
  const uint run = Uint(p.control).v + 1u;
  if (kind == stage_attention) look_up_position();
  else load_first(s);
  const vec4 weight = weight_of_next(lane);
  if (lane == 0u) stalled = missing = fault = 0u;
  if (kind == stage_attention) {
    if (lane < STAGE_WORDS / 4u) {
      [[unroll]] for (uint i = 0u; i < 4u; ++i) record[lane * 4u + i] = words[i];
    }
    group_barrier();
    look_up_pages(gl_WorkGroupID.x / attention_parts(), gl_WorkGroupID.x % attention_parts());
    attend(s, run);
  } else {
    group_barrier();
    if (blocks_in != 0) take_row(s, run);
    else make_row(s, run);
    begin_blocks(weight);
    if (lane < STAGE_WORDS / 4u) {
      [[unroll]] for (uint i = 0u; i < 4u; ++i) record[lane * 4u + i] = words[i];
    }
    group_barrier();
    if (work_tile < stage_tiles()) load_c(work_tile, work_part);
    if ((stalled | missing) == 0u) multiply(s, run);
  }
  group_barrier();
  if (lane != 0u) return;
  if ((stalled | missing) != 0u) atomicOr(Uint(p.stalled).v, 1u);
  if (s + 1u != p.count) return;
  const uint before = atomicAdd(Uint(p.control + 4ul).v, 1u, gl_ScopeDevice, gl_StorageSemanticsBuffer, gl_SemanticsAcquireRelease | gl_SemanticsMakeAvailable | gl_SemanticsMakeVisible);
  if (before + 1u == gl_NumWorkGroups.x) {  // all that have something to do have read the number of this run
    Uint(p.control + 4ul).v = 0u;
    Uint(p.control).v = Uint(p.control).v + p.count;
  }
}
