#version 460
// gemv_one.comp of weights that are floats or stand for floats: the row is f32 in shared memory, or f16 where that has no room. Constants 1: what the row is (quantise.comp); 2: k, a
// multiple of 64; 3: 1 where there is one result, silu(x b[0]^T) * (x b[1]^T); 4: products; 5: loads under way for each of two rows, 8 at most; 6: format
// of the weights; 7: copies of a table; 8: 1 where the row is f16, each 32 neighbours times a power of two.
//
// A subgroup computes two outputs at a time, its lanes striding along k by the elements of a load of 16 bytes, several of them in flight, each of which
// is asked for again as soon as it was used. Codes of four bits are looked up by twos. Lanes that find different words in one bank of shared memory
// wait for each other, so the table lies there several times, a word of each copy behind the other.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "prelude.glsl"
#include "math.glsl"
#include "blocks.glsl"
#include "planes.glsl"
#include "whole_scales.glsl"
layout(constant_id = 1) const int mode = 0;
layout(constant_id = 2) const int k = 2048;
layout(constant_id = 3) const int paired = 0;
layout(constant_id = 4) const int parts = 1;
layout(constant_id = 5) const int steps_at_once = 4;
layout(constant_id = 6) const int format = F16;
layout(constant_id = 7) const int copies = 1;
layout(constant_id = 8) const int half_row = 0;
PUSHED(OneRowParams)
#include "one_row.glsl"

const int most_steps = 8;
const bool looks_up = format == NF4_64 || format == FP4_64;
const bool plain = format == F16 || format == BF16;
const uint fours_a_load = plain ? 2u : format == F8_128 ? 4u : 8u;
const uint units = fours / fours_a_load;

shared vec4 row[half_row != 0 ? 1 : fours];
shared uvec2 row_halves[half_row != 0 ? fours : 1];
shared float row_scales[half_row != 0 ? fours / 8 : 1];
shared uint pairs[looks_up ? 256 * copies : 1];  // of each byte the numbers of its codes, as f16

uvec4 next[rows_at_once * most_steps];
uint next_word[rows_at_once * most_steps];  // the scales of their blocks
uint64_t row_at[rows_at_once], words_at_row[rows_at_once];  // of the tile to load

/// Where the four elements `four` of a load lie: neighbouring lanes, which take neighbouring loads, read neighbouring ones.
uint place_of(uint unit, uint four) { return plain ? 2u * unit + four : four * units + unit; }

void open_tile() {
  [[unroll]] for (int r = 0; r < rows_at_once; ++r) {
    const uint64_t base = paired != 0 && r == 1 ? weights[1] : weights[0], at = uint64_t(paired != 0 ? to_tile : min(to_tile * 2u + uint(r), n - 1u));
    if (plain) {
      row_at[r] = base + at * uint64_t(k * 2);
    } else {
      const uint row_blocks = uint(k) / group_elements(format);
      const Planes planes = planes_at(base, format, uint64_t(n) * uint64_t(row_blocks));
      row_at[r] = planes.codes + at * uint64_t(row_blocks * plane_bytes(format).y);
      words_at_row[r] = planes.small + at * uint64_t(row_blocks * 4u);
    }
  }
}
/// Lanes behind the end load the last elements again.
void load_eight(const int r, const int s) {
  if (to_tile >= tiles) return;
  const uint unit = min((to_step * uint(steps_at_once) + uint(s)) * lanes + lane_of_subgroup, units - 1u);
  next[s * rows_at_once + r] = Uint4(row_at[r] + uint64_t(unit) * 16ul).v;
  if (!plain) next_word[s * rows_at_once + r] = Uint(words_at_row[r] + uint64_t(unit * 4u * fours_a_load / group_elements(format) * 4u)).v;
}

/// Lanes have neighbouring fours, eight of which share a power of two that puts the largest element between 2^14 and 2^15, as in rows_f16.comp.
void leave_halves(uint first) {
  [[unroll]] for (int e = 0; e < fours_at_once; ++e) {
    if (e < fours_a_lane && first + uint(e * lanes_of_group) < fours) {  // of the whole workgroup
      const uint i = first + gl_LocalInvocationID.x + uint(e * lanes_of_group);
      const uvec4 bits = floatBitsToUint(row_four[e]) & 0x7fffffffu;
      uint most = max(max(bits.x, bits.y), max(bits.z, bits.w));
      [[unroll]] for (uint d = 1u; d < 8u; d *= 2u) most = max(most, subgroupShuffleXor(most, d));
      const bool finite = most < 0x7f800000u;
      const uint exponent = clamp(most >> 23, 24u, 254u);
      const vec4 x = finite ? row_four[e] * uintBitsToFloat(268u - exponent << 23) : vec4(0.0);
      if (i < fours) {
        row_halves[place_of(i / fours_a_load, i % fours_a_load)] = uvec2(packHalf2x16(x.xy), packHalf2x16(x.zw));
        if ((i & 7u) == 0u) row_scales[i / 8u] = finite ? uintBitsToFloat(exponent - 14u << 23) : NOT_A_NUMBER;
      }
    }
  }
}
void leave_row(uint first) {
  if (half_row != 0) {
    leave_halves(first);
    return;
  }
  [[unroll]] for (int e = 0; e < fours_at_once; ++e) {
    const uint i = first + gl_LocalInvocationID.x + uint(e * lanes_of_group);
    if (e < fours_a_lane && i < fours) row[place_of(i / fours_a_load, i % fours_a_load)] = row_four[e];
  }
}
void leave_table() {
  if (!looks_up) return;
  for (uint i = gl_LocalInvocationID.x; i < uint(256 * copies); i += gl_WorkGroupSize.x) {
    const uint byte_ = i / uint(copies), low = byte_ & 15u, high = byte_ >> 4;
    pairs[i] = packHalf2x16(format == NF4_64 ? vec2(nf4_values[low], nf4_values[high]) : vec2(fp4_values[low], fp4_values[high]));
  }
}

vec4 four_of_row(uint place) {
  if (half_row == 0) return row[place];
  const uvec2 words = row_halves[place];
  return vec4(unpackHalf2x16(words.x), unpackHalf2x16(words.y));
}

/// Two numbers of a word.
vec2 two_plain(uint word) { return format == F16 ? unpackHalf2x16(word) : uintBitsToFloat(uvec2(word << 16, word & 0xffff0000u)); }

/// What load s of both rows adds to their sums; `at`: where it stands among a row's.
void add_load(const int s, uint at, inout float sum[rows_at_once]) {
  if (plain) {
    const vec4 a = row[2u * at], b = row[2u * at + 1u];
    [[unroll]] for (int r = 0; r < rows_at_once; ++r) {
      const uvec4 h = next[s * rows_at_once + r];
      const vec2 h0 = two_plain(h.x), h1 = two_plain(h.y), h2 = two_plain(h.z), h3 = two_plain(h.w);
      float more = fma(a.y, h0.y, fma(a.x, h0.x, sum[r]));
      more = fma(a.w, h1.y, fma(a.z, h1.x, more));
      more = fma(b.y, h2.y, fma(b.x, h2.x, more));
      sum[r] = fma(b.w, h3.y, fma(b.z, h3.x, more));
    }
    return;
  }
  float part[rows_at_once] = float[rows_at_once](0.0, 0.0);
  [[unroll]] for (uint w = 0u; w < 4u; ++w) {
    const vec4 a = four_of_row(place_of(at, w));
    vec4 b = vec4(0.0);
    if (looks_up) b = four_of_row(place_of(at, w + 4u));
    [[unroll]] for (int r = 0; r < rows_at_once; ++r) {
      const uint codes = next[s * rows_at_once + r][w];
      if (looks_up) {
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
          const vec2 v = unpackHalf2x16(pairs[(codes >> 8u * j & 255u) * uint(copies) + lane_of_subgroup % uint(copies)]);
          part[r] = fma(b[j], v.y, fma(a[j], v.x, part[r]));
        }
      } else {
        const vec2 even = unpackHalf2x16(two_e4m3(codes & 0x00ff00ffu)), odd = unpackHalf2x16(two_e4m3(codes >> 8 & 0x00ff00ffu));
        part[r] = fma(a.w, odd.y, fma(a.z, even.y, fma(a.y, odd.x, fma(a.x, even.x, part[r]))));
      }
    }
  }
  const float scale = (format == F8_128 ? 256.0 : 1.0) * (half_row != 0 ? row_scales[at * fours_a_load / 8u] : 1.0);
  [[unroll]] for (int r = 0; r < rows_at_once; ++r) sum[r] = fma(word_scale(format, next_word[s * rows_at_once + r]), part[r] * scale, sum[r]);
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
  leave_table();
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
        float more[rows_at_once] = sum;
        add_load(s, at, more);
        [[unroll]] for (int r = 0; r < rows_at_once; ++r) {
          if (unit < units) sum[r] = more[r];
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
