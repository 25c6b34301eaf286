#version 460
// Products of one row that is not int8 yet by quantised weights: each workgroup makes the int8 activations for itself, as quantise.comp does, in
// shared memory, while its first weights are on their way. A norm's factor, the same for the whole row, is left out of them and multiplies sums.
//
// Up to three products of the same row share the workgroups (one_row.glsl). Constants 1: format of the weights; 2: another format, 0 where all
// have one; 3: bits of the products whose weights have it; 4: what the row is (quantise.comp); 5: k; 6: 1 where there is one result,
// silu(x b[0]^T) * (x b[1]^T); 7: products.
//
// A subgroup computes two outputs at a time, its lanes striding along k by 64 elements; a row's registers are loaded again as soon as they were
// used. The order of summation depends on k, the subgroup and, of a norm's factor, on the workgroup's size.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "prelude.glsl"
#include "math.glsl"
#include "blocks.glsl"
#include "planes.glsl"
#include "dot.glsl"
#include "units.glsl"
#include "unit_dot.glsl"
layout(constant_id = 1) const int format_a = Q8_0;
layout(constant_id = 2) const int format_b = 0;
layout(constant_id = 3) const int parts_of_b = 0;
layout(constant_id = 4) const int mode = 0;
layout(constant_id = 5) const int k = 2048;
layout(constant_id = 6) const int paired = 0;
layout(constant_id = 7) const int parts = 1;
PUSHED(OneRowParams)
#include "one_row.glsl"

const uint units = uint(k) / 64u;

// Groups of 16 activations lie so that neighbouring lanes, which take neighbouring units, read neighbouring ones.
shared uvec4 group_code[k / 16];
shared vec2 group_scale[k / 16];

PackedUnit next[rows_at_once];
uint64_t row_blocks_before[rows_at_once];  // of the tile to load: blocks before each row
Planes planes[2];

/// Where group `i` of 16 elements lies: behind the same group of all units before its own.
uint place_of(const int format, uint i) {
  if (format == Q6_K) return (i >> 1 & 3u) * units + (i >> 4) * 4u + (i >> 3 & 1u) * 2u + (i & 1u);
  return (i & 3u) * units + (i >> 2);
}

/// A share of the row (one_row.glsl).
void quantise(bool has_b, uint first) {
  [[unroll]] for (int e = 0; e < fours_at_once; ++e) {
    if (e < fours_a_lane && first + uint(e * lanes_of_group) < fours) {  // of the whole workgroup
      const uint i = first + gl_LocalInvocationID.x + uint(e * lanes_of_group);
      const uvec4 bits = floatBitsToUint(row_four[e]) & 0x7fffffffu;
      uint most = max(max(bits.x, bits.y), max(bits.z, bits.w));
      [[unroll]] for (uint d = 1u; d < 8u; d *= 2u) most = max(most, subgroupShuffleXor(most, d));  // 32 neighbours have one scale
      const float size = uintBitsToFloat(most);
      const bool finite = most < 0x7f800000u;
      ivec4 code = ivec4(0);
      if (finite && size > 1e-36) code = clamp(ivec4(roundEven(row_four[e] * (127.0 / size))), -127, 127);
      int sum = code.x + code.y + code.z + code.w;
      [[unroll]] for (uint d = 1u; d < 4u; d *= 2u) sum += subgroupShuffleXor(sum, d);
      const float scale = finite ? size / 127.0 : NOT_A_NUMBER;  // what is not finite makes all that reads these 32 NaN
      const uvec4 bytes = uvec4(code) & 255u;
      const uint at = has_b ? place_of(format_b, i >> 2) : place_of(format_a, i >> 2);
      if (i < fours) {
        group_code[at][i & 3u] = bytes.x | bytes.y << 8 | bytes.z << 16 | bytes.w << 24;
        if ((i & 3u) == 0u) group_scale[at] = vec2(scale, scale * float(sum));
      }
    }
  }
}

/// Row r of the item to load. Lanes behind the end load its last elements again.
void load_row(const int format, const int r) {
  if (to_tile >= tiles) return;
  const uint unit = min(to_step * lanes + lane_of_subgroup, units - 1u);
  const bool second = paired != 0 && r == 1;
  const uint64_t block = row_blocks_before[r];
  next[r] = load_unit(format, (second ? weights[1] : weights[0]) + block * uint64_t(block_bytes(format)), second ? planes[1] : planes[0], block, unit);
}
void open_tile(const int format) {
  [[unroll]] for (int r = 0; r < rows_at_once; ++r)
    row_blocks_before[r] = uint64_t(paired != 0 ? to_tile : min(to_tile * 2u + uint(r), n - 1u)) * uint64_t(uint(k) / block_elements(format));
}

/// Goes on to the item behind the one that was asked for last.
void load_on(const int format) {
  if (++to_step < (units + lanes - 1u) / lanes) return;
  to_step = 0u;
  to_tile += tile_stride;
  open_tile(format);
}

void begin(const int format) {
  planes[0] = planes_at(weights[0], format, uint64_t(n) * uint64_t(uint(k) / block_elements(format)));
  if (paired != 0) planes[1] = planes_at(weights[1], format, uint64_t(n) * uint64_t(uint(k) / block_elements(format)));
  open_tile(format);
  [[unroll]] for (int r = 0; r < rows_at_once; ++r) load_row(format, r);
  load_on(format);
}

uint tile, step;  // the item at work
float sum[rows_at_once];

void multiply_item(const int format, float factor) {
  const uint unit = step * lanes + lane_of_subgroup, at = min(unit, units - 1u);
  UnitRow row;
  [[unroll]] for (uint g = 0u; g < 4u; ++g) {
    row.code[g] = group_code[g * units + at];
    row.scale[g] = group_scale[g * units + at];
    if (begins_below(format)) row.share[g] = dot16(uvec4(bytes_of_begin(format)), row.code[g]);
  }
  [[unroll]] for (int r = 0; r < rows_at_once; ++r) {
    const float more = add_unit(format, next[r], unit, row, sum[r]);
    if (unit < units) sum[r] = more;
    load_row(format, r);
  }
  load_on(format);
  if (++step * lanes < units) return;
  finish_tile(tile, sums_of_rows(sum[0], sum[1]) * factor);
  sum[0] = sum[1] = 0.0;
  step = 0u;
  tile += tile_stride;
  load_residual(tile);
}

void multiply(const int format, uint first_tile) {
  const float factor = factor_of_norm();
  sum[0] = sum[1] = 0.0;
  step = 0u;
  tile = first_tile;
  while (tile < tiles) multiply_item(format, factor);
}

void main() {
  open_part();
  const bool has_b = format_b != 0 && (parts_of_b >> part & 1) != 0;
  ask_for_row(0u);
  const uint first_tile = to_tile;
  if (has_b) begin(format_b);
  else begin(format_a);
  load_residual(first_tile);
  make_row();
  quantise(has_b, 0u);
  [[dont_unroll]] for (uint first = share_of_row; first < fours; first += share_of_row) {
    ask_for_row(first);
    make_row();
    quantise(has_b, first);
  }
  leave_squares();
  barrier();
  if (has_b) multiply(format_b, first_tile);
  else multiply(format_a, first_tile);
}
