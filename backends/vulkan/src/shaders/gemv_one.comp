#version 460
// gemv.comp of one row, which is not int8 yet: each workgroup makes the int8 activations for itself, as quantise.comp does, in shared memory,
// while its first weights are on their way. Constant 1: format of b; 2: what the row is (quantise.comp); 3: k; 4: 1 where the result is
// silu(x b^T) * (x other_b^T).
//
// The order of summation is gemv.comp's.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "prelude.glsl"
#include "math.glsl"
#include "group.glsl"
#include "blocks.glsl"
#include "planes.glsl"
#include "dot.glsl"
#include "units.glsl"
#include "unit_dot.glsl"
#include "activations_i8.glsl"
layout(constant_id = 1) const int format = Q8_0;
layout(constant_id = 2) const int mode = 0;
layout(constant_id = 3) const int k = 2048;
layout(constant_id = 4) const int paired = 0;
PUSHED(GemvOneParams)
#define PLAIN 0
#define NORM 1
#define GLU 2

const int rows_at_once = 2;  // paired: the one of b and the one of other_b
const int rows_a_tile = paired != 0 ? 1 : rows_at_once;
const int eights = k / 8, lanes_of_group = int(gl_WorkGroupSize.x);
const int eights_a_lane = (eights + lanes_of_group - 1) / lanes_of_group;
const uint units = uint(k) / 64u;

// Groups of 16 activations lie so that neighbouring lanes, which take neighbouring units, read neighbouring ones.
shared uvec4 group_code[k / 16];
shared vec2 group_scale[k / 16];
shared uint largest[eights];
shared int code_sum[eights];

/// Where group `i` of 16 elements lies: behind the same group of all units before its own.
uint place_of(uint i) {
  if (format == Q6_K) return (i >> 1 & 3u) * units + (i >> 4) * 4u + (i >> 3 & 1u) * 2u + (i & 1u);
  return (i & 3u) * units + (i >> 2);
}

vec4 four_at(uint64_t row, uint i) { return Float4(row + uint64_t(i) * 4ul).v; }

void quantise_row() {
  const uint lane = gl_LocalInvocationID.x;
  Eight x[eights_a_lane], weight[eights_a_lane];  // of the norm, asked for before the sum is waited for
  float squares = 0.0;
  [[unroll]] for (int e = 0; e < eights_a_lane; ++e) {
    const uint at = lane + uint(e * lanes_of_group);
    x[e] = Eight(vec4[2](vec4(0.0), vec4(0.0)));
    if (at >= uint(eights)) continue;
    [[unroll]] for (uint h = 0u; h < 2u; ++h) {
      vec4 part = four_at(p.x, at * 8u + h * 4u);
      if (mode == NORM) {
        squares += dot(part, part);
        weight[e].v[h] = four_at(p.other, at * 8u + h * 4u);
      }
      if (mode == GLU) {
        const vec4 up = four_at(p.other, at * 8u + h * 4u);
        part = vec4(part.x * sigmoid_of(part.x), part.y * sigmoid_of(part.y), part.z * sigmoid_of(part.z), part.w * sigmoid_of(part.w)) * up;
      }
      x[e].v[h] = part;
    }
  }
  if (mode == NORM) {
    const float factor = 1.0 / sqrt(group_sum(squares) / float(k) + p.epsilon);
    [[unroll]] for (int e = 0; e < eights_a_lane; ++e) {
      if (lane + uint(e * lanes_of_group) >= uint(eights)) continue;
      [[unroll]] for (uint h = 0u; h < 2u; ++h) x[e].v[h] = x[e].v[h] * factor * (weight[e].v[h] + p.offset);
    }
  }
  [[unroll]] for (int e = 0; e < eights_a_lane; ++e) {
    const uint at = lane + uint(e * lanes_of_group);
    if (at < uint(eights)) largest[at] = largest_of(x[e]);
  }
  barrier();
  float scale[eights_a_lane];
  int sum[eights_a_lane];
  [[unroll]] for (int e = 0; e < eights_a_lane; ++e) {
    const uint at = lane + uint(e * lanes_of_group), first = at & ~3u;
    if (at >= uint(eights)) continue;
    const uint most = max(max(largest[first], largest[first + 1u]), max(largest[first + 2u], largest[first + 3u])), to = place_of(at >> 1);
    scale[e] = scale_of(most);
    const uvec2 words = codes_of_eight(x[e], most, sum[e]);
    if ((at & 1u) == 0u) group_code[to].xy = words;
    else group_code[to].zw = words;
    code_sum[at] = sum[e];
  }
  barrier();
  [[unroll]] for (int e = 0; e < eights_a_lane; ++e) {
    const uint at = lane + uint(e * lanes_of_group);
    if (at < uint(eights) && (at & 1u) == 0u) group_scale[place_of(at >> 1)] = vec2(scale[e], scale[e] * float(sum[e] + code_sum[at + 1u]));
  }
  barrier();
}

void main() {
  const uint lanes = subgroupAdd(1u), lane = subgroupExclusiveAdd(1u);
  const uint row_blocks = uint(k) / block_elements(format), row_bytes = row_blocks * block_bytes(format);
  const Planes planes = planes_at(p.b, format, uint64_t(p.n) * uint64_t(row_blocks));
  const Planes other_planes = planes_at(p.other_b, format, uint64_t(p.n) * uint64_t(row_blocks));
  const uint tiles = (p.n + uint(rows_a_tile) - 1u) / uint(rows_a_tile), stride = gl_NumWorkGroups.x * gl_NumSubgroups;
  const uint steps = (units + lanes - 1u) / lanes;
  uint tile = gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID;
  PackedUnit next[rows_at_once];
#define LOAD(tile_, unit_)                                                                                                                \
  if ((tile_) < tiles && (unit_) < units) {                                                                                               \
    [[unroll]] for (int r = 0; r < rows_at_once; ++r) {                                                                                   \
      const bool second = paired != 0 && r == 1;                                                                                          \
      const uint64_t row = uint64_t(paired != 0 ? (tile_) : min((tile_) * 2u + uint(r), p.n - 1u));                                       \
      if (second) next[r] = load_unit(format, p.other_b + row * uint64_t(row_bytes), other_planes, row * uint64_t(row_blocks), unit_);     \
      else next[r] = load_unit(format, p.b + row * uint64_t(row_bytes), planes, row * uint64_t(row_blocks), unit_);                        \
    }                                                                                                                                     \
  }
  LOAD(tile, lane)
  quantise_row();
  while (tile < tiles) {
    float sum[rows_at_once];
    [[unroll]] for (int r = 0; r < rows_at_once; ++r) sum[r] = 0.0;
    for (uint step = 0u; step < steps; ++step) {
      const uint unit = step * lanes + lane, later_tile = step + 1u == steps ? tile + stride : tile,
                 later = step + 1u == steps ? lane : unit + lanes;
      const PackedUnit now[rows_at_once] = next;
      LOAD(later_tile, later)
      if (unit >= units) continue;
      UnitRow row;
      [[unroll]] for (uint g = 0u; g < 4u; ++g) {
        row.code[g] = group_code[g * units + unit];
        row.scale[g] = group_scale[g * units + unit];
        if (begins_below(format)) row.share[g] = dot16(uvec4(bytes_of_begin(format)), row.code[g]);
      }
      [[unroll]] for (int r = 0; r < rows_at_once; ++r) sum[r] = add_unit(format, now[r], unit, row, sum[r]);
    }
    float total[rows_at_once];
    [[unroll]] for (int r = 0; r < rows_at_once; ++r) total[r] = subgroupAdd(sum[r]);
    if (paired != 0) {
      if (lane == 0u) Float(p.y + uint64_t(tile) * 4ul).v = total[0] * sigmoid_of(total[0]) * total[1];
    } else {
      [[dont_unroll]] for (uint r = lane; r < uint(rows_at_once); r += lanes) {
        const uint j = tile * uint(rows_at_once) + r;
        if (j >= p.n) continue;
        float v = r == 0u ? total[0] : total[1];
        if (p.bias != 0ul) v += load_packed(p.bias, p.bias_dtype, j);
        if (p.c != 0ul) v += Float(p.c + uint64_t(j) * 4ul).v;
        Float(p.y + uint64_t(j) * 4ul).v = v;
      }
    }
    tile += stride;
  }
}
