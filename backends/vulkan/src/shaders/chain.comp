#version 460
// The steps of one row as stages of one dispatch, whose workgroups are all at work at once: a stage is up to three products of one row, with the
// norm before it and a residual or SwiGLU behind it (as gemv_one.comp, gemv_half.comp), or attention of one row (as attention_fused.comp).
//
// Between stages there is no barrier. A result goes to the exchange as 8 bytes, the f32 and the number of the run and stage that wrote it, and
// whoever wants it looks until the number is there: a load brings number and value together, so that nothing else has to be in order. Each
// stage but the first needs all that the stage before made. So a workgroup that writes knows that all have read what was wanted before the
// stage before, and words are used again.
//
// While a workgroup looks, the first weights of its next product are under way. A norm's factor is found beside the codes and multiplies sums.
// Looking is bounded: a workgroup that waits too long says so and does nothing more.
//
// Constants 1: k of products of quantised weights, at most; 2: of any; 3: formats, a bit each; 4, 5: dtypes of keys and
// values; 6: elements of a head, at most; 7: lanes that share a key; 8: subgroups of a workgroup, at
// most; 9: 1 where products have biases, 2 where scores are capped; 10: groups of four floats of the pool.
#pragma use_vulkan_memory_model
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "prelude.glsl"
#include "math.glsl"
#include "blocks.glsl"
#include "planes.glsl"
#include "dot.glsl"
#include "units.glsl"
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
PUSHED(ChainParams)

#define PLAIN 0
#define NORM 1
#define ATTENTION 2
const int lanes_of_group = int(gl_WorkGroupSize.x);
const int fours_a_lane = (widest / 4 + lanes_of_group - 1) / lanes_of_group;

shared uint stalled, missing;
shared float group_part[most_subgroups];
shared uvec4 group_code[most_k / 16];  // as in gemv_one.comp
shared vec2 group_scale[most_k / 16];
shared vec4 pool[pool_fours];  // a row in f32, or what subgroups found

void group_barrier() { controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease); }

bool has_bias() { return (extras & 1) != 0; }
bool has_softcap() { return (extras & 2) != 0; }

#include "chain_stage.glsl"
#include "chain_exchange.glsl"
#include "chain_product.glsl"
#include "chain_attention.glsl"

/// A record is loaded, 16 bytes a lane, while the stage before the one before last is at work, and stored at its end.
uvec4 load_stage(uint s) {
  const uint at = gl_LocalInvocationID.x;
  return s < p.count && at < STAGE_WORDS / 4u ? Uint4(p.stages + (uint64_t(s) * (STAGE_WORDS / 4u) + at) * 16ul).v : uvec4(0u);
}
void store_stage(uint s, uvec4 words) {
  const uint at = gl_LocalInvocationID.x;
  if (at >= STAGE_WORDS / 4u) return;
  [[unroll]] for (uint i = 0u; i < 4u; ++i) ring[(s & 3u) * STAGE_WORDS + at * 4u + i] = words[i];
}

void main() {
  subgroup_lanes = subgroupAdd(1u);
  lane_of_subgroup = subgroupExclusiveAdd(1u);
  const uint run = Uint(p.control).v + 1u;
  if (gl_LocalInvocationID.x == 0u) stalled = missing = fault = 0u;
  for (uint s = 0u; s < 3u; ++s) store_stage(s, load_stage(s));
  group_barrier();
  bool under_way = false;  // the first weights of the next product
  for (uint next = 0u; next <= p.count; ++next) {  // the stage before `next` is at work
    const uint s = next - 1u;
    const uvec4 record = load_stage(s + 3u);
    const bool attends = next < p.count && stage_kind(next & 3u) == ATTENTION;
    if (attends) look_up_position(next & 3u);
    if (next != 0u) {
      if (missing != 0u) stalled = 1u;
      const bool product = stage_kind(s & 3u) != ATTENTION;
      if (product) make_row(s, run);
      group_barrier();
      if (stalled != 0u) break;
      if (product) {
        multiply(s, run);
        under_way = false;
      } else {
        attend(s, run);
      }
    }
    const uint product = attends ? next + 1u : next;
    if (!under_way && product < p.count) {
      load_first(product);
      under_way = true;
    }
    if (attends) look_up_pages(next & 3u, gl_WorkGroupID.x);
    if (next != 0u) store_stage(s + 3u, record);
    group_barrier();  // the whole workgroup has read and written what it does in this stage
  }
  if (gl_LocalInvocationID.x == 0u) {
    if ((stalled | missing) != 0u) atomicOr(Uint(p.stalled).v, 1u);
    const uint before = atomicAdd(Uint(p.control + 4ul).v, 1u, gl_ScopeDevice, gl_StorageSemanticsBuffer, gl_SemanticsAcquireRelease | gl_SemanticsMakeAvailable | gl_SemanticsMakeVisible);
    if (before + 1u == gl_NumWorkGroups.x) {  // all have read the number of this run
      Uint(p.control + 4ul).v = 0u;
      Uint(p.control).v = Uint(p.control).v + p.count;
    }
  }
}
