#version 460
// gemv_one.comp of weights of f16: the row is f32 in shared memory. Constants 1: what the row is (quantise.comp); 2: k, a multiple of 64; 3: 1
// where there is one result, silu(x b[0]^T) * (x b[1]^T); 4: products; 5: loads under way for each of two rows, 8 at most.
//
// A subgroup computes two outputs at a time, its lanes striding along k by eight elements, several times in flight, each of which is asked for again
// as soon as it was used.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "prelude.glsl"
#include "math.glsl"
layout(constant_id = 1) const int mode = 0;
layout(constant_id = 2) const int k = 2048;
layout(constant_id = 3) const int paired = 0;
layout(constant_id = 4) const int parts = 1;
layout(constant_id = 5) const int steps_at_once = 4;
PUSHED(OneRowParams)
#include "one_row.glsl"

const int most_steps = 8;
const uint units = uint(k) / 8u;

shared vec4 row[fours];

uvec4 next[rows_at_once * most_steps];
uint64_t row_at[rows_at_once];  // of the tile to load

void open_tile() {
  [[unroll]] for (int r = 0; r < rows_at_once; ++r)
    row_at[r] = (paired != 0 && r == 1 ? weights[1] : weights[0]) + uint64_t(paired != 0 ? to_tile : min(to_tile * 2u + uint(r), n - 1u)) * uint64_t(k * 2);
}
/// Lanes behind the end load the last elements again.
void load_eight(const int r, const int s) {
  if (to_tile >= tiles) return;
  const uint unit = min((to_step * uint(steps_at_once) + uint(s)) * lanes + lane_of_subgroup, units - 1u);
  next[s * rows_at_once + r] = Uint4(row_at[r] + uint64_t(unit) * 16ul).v;
}

void leave_row(uint first) {
  [[unroll]] for (int e = 0; e < fours_at_once; ++e) {
    const uint i = first + gl_LocalInvocationID.x + uint(e * lanes_of_group);
    if (e < fours_a_lane && i < fours) row[i] = row_four[e];
  }
}

void main() {
  open_part();
  ask_for_row(0u);
  open_tile();
  [[unroll]] for (int s = 0; s < most_steps; ++s) {
    [[unroll]] for (int r = 0; r < rows_at_once; ++r)
      if (s < steps_at_once) load_eight(r, s);
  }
  load_residual(to_tile);
  make_row();
  leave_row(0u);
  [[dont_unroll]] for (uint first = share_of_row; first < fours; first += share_of_row) {
    ask_for_row(first);
    make_row();
    leave_row(first);
  }
  leave_squares();
  barrier();
  const uint at_once = uint(steps_at_once) * lanes, steps = (units + at_once - 1u) / at_once;
  const float factor = factor_of_norm();
  float sum[rows_at_once] = float[rows_at_once](0.0, 0.0);
  uint tile = to_tile, step = 0u;
  while (tile < tiles) {
    if (++to_step == steps) {
      to_step = 0u;
      to_tile += tile_stride;
      open_tile();
    }
    [[unroll]] for (int s = 0; s < most_steps; ++s) {
      if (s < steps_at_once) {
        const uint unit = (step * uint(steps_at_once) + uint(s)) * lanes + lane_of_subgroup, at = min(unit, units - 1u);
        const vec4 a = row[2u * at], b = row[2u * at + 1u];
        [[unroll]] for (int r = 0; r < rows_at_once; ++r) {
          const uvec4 h = next[s * rows_at_once + r];
          const vec2 h0 = unpackHalf2x16(h.x), h1 = unpackHalf2x16(h.y), h2 = unpackHalf2x16(h.z), h3 = unpackHalf2x16(h.w);
          float more = fma(a.y, h0.y, fma(a.x, h0.x, sum[r]));
          more = fma(a.w, h1.y, fma(a.z, h1.x, more));
          more = fma(b.y, h2.y, fma(b.x, h2.x, more));
          more = fma(b.w, h3.y, fma(b.z, h3.x, more));
          if (unit < units) sum[r] = more;
          load_eight(r, s);
        }
      }
    }
    if (++step < steps) continue;
    finish_tile(tile, sums_of_rows(sum[0], sum[1]) * factor);
    sum[0] = sum[1] = 0.0;
    step = 0u;
    tile += tile_stride;
    load_residual(tile);
  }
}
