// Products of chain.comp. A tile is `rows` outputs of a subgroup, or half as many of a gate and its up; tiles go to workgroups first, then to
// subgroups, or where they become blocks all of one block after the other (chain_blocks.glsl). A subgroup goes along k by items: 64 elements a lane of each of the tile's rows, of weights of f16 32. What an item takes is asked for
// an item before, row by row as soon as a row's registers are free: across tiles, and the first one of a stage while the stage before it ends.

#define BIT(format_) (1 << ((format_) == F16 ? 0 : (format_) - Q4_0 + 1))
bool has_format(int format) { return (formats & BIT(format)) != 0; }
/// Whether a format known at run time is this one: without a look at it where the pipeline has no other.
bool is(int format, const int which) { return has_format(which) && (formats == BIT(which) || format == which); }
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer WordPair { uvec2 v; };

/// Where items are loaded: one ahead of the one at work.
struct Place {
  uint tile, end, part, step;     // end: the part's; step: along k
  uint local;                     // which of the workgroup's
  int format;
  uint units, steps;              // of a row: of 64 elements, or of f16 of 8; items
  uint64_t b[2];                  // of the first half of a tile's rows and of the second
  Planes behind;                  // where planes begin, of a matrix at 0
  uint at[rows];                  // block where a row begins, of f16 16 bytes
};
Place to;
PackedUnit ring_unit[rows];
uint work_tile, work_local, work_step, work_part;  // the item at work
uvec2 next_c;  // the residual of this lane's output: a word, or a float in x

bool has_planes() { return (formats & ~(BIT(F16) | BIT(Q4_K) | BIT(Q5_K))) != 0; }
uint64_t plane_at(const int h, uint64_t begin) { return to.b[h] + begin; }

/// A workgroup's tiles in its order: every so many, or where results go as blocks all of one block after the other.
uint tile_at(uint local) {
  if (blocks_out == 0) return gl_WorkGroupID.x + gl_NumWorkGroups.x * local;
  const uint tiles = 16u / tile_outputs();
  return (gl_WorkGroupID.x + gl_NumWorkGroups.x * (local / tiles)) * tiles + local % tiles;
}

void open_part() {
  const uint i = to.part, k = uint(widest);
  to.format = part_format(i);
  to.end = i + 1u < uint(stage_parts()) ? part_first_tile(i + 1u) : stage_tiles();
  to.b[0] = part_b(i);
  to.b[1] = is_paired() ? part_other_b(i) : to.b[0];
  if (has_planes()) to.behind = planes_at(0ul, to.format, uint64_t(part_n(i)) * uint64_t(k / block_elements(to.format)));
  const bool of_f16 = is(to.format, F16);
  const uint at_once = of_f16 ? 4u * subgroup_lanes : subgroup_lanes;
  to.units = of_f16 ? k / 8u : k / 64u;
  to.steps = (to.units + at_once - 1u) / at_once;
}
uint blocks_of(int format, uint k) { return is(format, F16) ? k / 8u : is(format, Q4_K) || is(format, Q5_K) || is(format, Q6_K) ? k / 256u : k / 32u; }

/// A tile's rows, and the part that has it.
void open_tile() {
  if (to.tile >= to.end) {
    while (to.tile >= to.end && to.part + 1u < uint(stage_parts())) {
      ++to.part;
      open_part();
    }
  }
  const uint blocks = blocks_of(to.format, uint(widest)), first = (to.tile - part_first_tile(to.part)) * tile_outputs(), last = part_n(to.part) - 1u;
  const bool paired = is_paired();
  to.step = 0u;
  [[unroll]] for (int r = 0; r < rows; ++r) to.at[r] = min(first + uint(paired ? r % (rows / 2) : r), last) * blocks;
}

/// Row r of the item at hand. Lanes behind the end load its last elements again.
void load_row(const int r) {
  const int h = r < rows / 2 ? 0 : 1;
  PackedUnit u = ring_unit[r];
  const uint unit = min(to.step * subgroup_lanes + lane_of_subgroup, to.units - 1u);
  if (is(to.format, F16)) {
    const uint eight = to.step * 4u * subgroup_lanes + lane_of_subgroup, last = to.units - 1u;
    u.q[0] = words_at(to.b[h] + uint64_t(to.at[r] + min(eight, last)) * 16ul);
    u.q[1] = words_at(to.b[h] + uint64_t(to.at[r] + min(eight + subgroup_lanes, last)) * 16ul);
    u.q[2] = words_at(to.b[h] + uint64_t(to.at[r] + min(eight + 2u * subgroup_lanes, last)) * 16ul);
    u.q[3] = words_at(to.b[h] + uint64_t(to.at[r] + min(eight + 3u * subgroup_lanes, last)) * 16ul);
  } else if (is(to.format, Q4_K) || is(to.format, Q5_K)) {
    const uint64_t block = to.b[h] + uint64_t(to.at[r] + unit / 4u) * (is(to.format, Q4_K) ? 144ul : 176ul);
    const uint64_t codes = block + uint64_t((is(to.format, Q4_K) ? 16u : 48u) + 32u * (unit % 4u));
    u.head = words_at(block);
    u.q[0] = words_at(codes);
    u.q[1] = words_at(codes + 16ul);
    if (is(to.format, Q5_K)) {
      u.q[2] = words_at(block + 16ul);
      u.q[3] = words_at(block + 32ul);
    }
  } else if (is(to.format, Q6_K)) {
    const uint block = to.at[r] + unit / 4u, half_block = unit >> 1 & 1u, side = unit & 1u;
    const uint64_t codes = plane_at(h, to.behind.codes) + uint64_t(block) * 128ul + uint64_t(64u * half_block + 16u * side);
    u.q[0] = words_at(codes);
    u.q[1] = words_at(codes + 32ul);
    u.q[2] = words_at(plane_at(h, to.behind.high) + uint64_t(block) * 64ul + uint64_t(32u * half_block + 16u * side));
    u.head.xy = WordPair(plane_at(h, to.behind.scales) + uint64_t(block) * 16ul + uint64_t(8u * half_block)).v;
    u.head.z = uint(Short(to.b[h] + uint64_t(block) * 2ul).v);
  } else {
    const uint block = to.at[r] + 2u * unit;
    if (is(to.format, Q8_0)) {
      const uint64_t codes = plane_at(h, to.behind.codes) + uint64_t(block) * 32ul;
      u.q[0] = words_at(codes);
      u.q[1] = words_at(codes + 16ul);
      u.q[2] = words_at(codes + 32ul);
      u.q[3] = words_at(codes + 48ul);
      u.head.x = Uint(to.b[h] + uint64_t(block) * 2ul).v;
    } else {
      const uint64_t codes = plane_at(h, to.behind.codes) + uint64_t(block) * 16ul;
      u.q[0] = words_at(codes);
      u.q[1] = words_at(codes + 16ul);
      if (is(to.format, Q4_1) || is(to.format, Q5_1)) u.head.xy = WordPair(to.b[h] + uint64_t(block) * 4ul).v;
      else u.head.x = Uint(to.b[h] + uint64_t(block) * 2ul).v;
      if (is(to.format, Q5_0) || is(to.format, Q5_1)) u.head.zw = WordPair(plane_at(h, to.behind.high) + uint64_t(block) * 4ul).v;
    }
  }
  ring_unit[r] = u;
}
void load_item() {
  load_row(0);
  if (used_rows > 1) load_row(1);
}
/// Goes on to the item behind.
void load_on() {
  if (++to.step < to.steps) return;
  to.local += gl_NumSubgroups;
  to.tile = tile_at(to.local);
  if (to.tile < stage_tiles()) open_tile();
}

/// The first item of a stage.
void load_first(uint s) {
  to.local = gl_SubgroupID;
  to.tile = tile_at(to.local);
  work_tile = to.tile;
  if (to.tile >= stage_tiles()) return;
  to.part = 0u;
  open_part();
  open_tile();
  work_part = to.part;
  work_local = to.local;
  work_step = 0u;
  load_item();
  if (once == 0) load_on();
}
/// The residual of a tile.
void load_c(uint tile, uint i) {
  const uint row = (tile - part_first_tile(i)) * tile_outputs() + lane_of_subgroup;
  if (tile >= stage_tiles() || lane_of_subgroup >= tile_outputs() || row >= part_n(i)) return;
  if (part_c_word(i) != CHAIN_NONE) next_c = look(part_c_word(i) + row);
  else if (part_c(i) != 0ul) next_c.x = floatBitsToUint(Float(part_c(i) + uint64_t(row) * 4ul).v);
}

/// The largest of `lanes` neighbouring lanes, and a sum over them.
uint largest_of_lanes(uint x, uint lanes) {
  for (uint d = 1u; d < lanes; d *= 2u) x = max(x, subgroupShuffleXor(x, d));
  return x;
}
int sum_of_lanes(int x, uint lanes) {
  for (uint d = 1u; d < lanes; d *= 2u) x += subgroupShuffleXor(x, d);
  return x;
}

/// The stage's row, in shared memory: int8 where its weights are quantised, f32 where they are f16. A norm's factor is left out.
void make_row(uint s, uint run) {
  const uint lane = gl_LocalInvocationID.x, k = uint(widest), fours = k / 4u, word = p.x_word;
  const bool norm = kind == source_norm;
  const float offset = p.offset;
  vec4 x[fours_a_lane], weight[fours_a_lane];
  [[unroll]] for (int e = 0; e < fours_a_lane; ++e) {
    const uint i = lane + uint(e * lanes_of_group);
    if (norm && i < fours) weight[e] = Float4(p.other + uint64_t(i) * 16ul).v;
  }
  if (word == CHAIN_NONE) {
    [[unroll]] for (int e = 0; e < fours_a_lane; ++e) {
      const uint i = lane + uint(e * lanes_of_group);
      if (i < fours) x[e] = Float4(p.x + uint64_t(i) * 16ul).v;
    }
  } else {
    const uint stamp = run + s - 1u;
    uint looks = 0u;
    // Its last word comes late: where that is not there yet, nothing else is asked for until it is.
    if (subgroupElect() && look(word + k - 1u).y != stamp) await(word + k - 1u, stamp);
    for (bool there = false; !there; ++looks) {
      there = true;
      [[unroll]] for (int e = 0; e < fours_a_lane; ++e) {
        const uint i = lane + uint(e * lanes_of_group);
        if (i >= fours) continue;
        const uvec4 a = look_at_pair(word + i * 4u), b = look_at_pair(word + i * 4u + 2u);
        x[e] = uintBitsToFloat(uvec4(a.x, a.z, b.x, b.z));
        there = there && a.y == stamp && a.w == stamp && b.y == stamp && b.w == stamp;
      }
      if (looks >= p.limit) {
        stalled = 1u;
        break;
      }
    }
  }
  float squares = 0.0;
  [[unroll]] for (int e = 0; e < fours_a_lane; ++e) {
    const uint i = lane + uint(e * lanes_of_group);
    if (i >= fours || !norm) continue;
    squares += dot(x[e], x[e]);
    x[e] *= weight[e] + offset;
  }
  if (norm) {
    squares = subgroupAdd(squares);
    if (lane_of_subgroup == 0u) group_part[gl_SubgroupID] = squares;
  }
  if (formats == BIT(F16)) {
    [[unroll]] for (int e = 0; e < fours_a_lane; ++e) {
      const uint i = lane + uint(e * lanes_of_group);
      if (i < fours) pool[i] = x[e];
    }
    return;
  }
  [[unroll]] for (int e = 0; e < fours_a_lane; ++e) {
    const uint i = lane + uint(e * lanes_of_group);
    if (uint(e * lanes_of_group) >= fours) break;  // of the whole workgroup
    uvec4 bits = uvec4(0u);
    if (i < fours) bits = floatBitsToUint(x[e]) & 0x7fffffffu;
    const uint most = largest_of_lanes(max(max(bits.x, bits.y), max(bits.z, bits.w)), 8u);  // 32 neighbours have one scale
    const float size = uintBitsToFloat(most);
    const bool finite = most < 0x7f800000u;
    ivec4 code = ivec4(0);
    if (finite && size > 1e-36 && i < fours) code = clamp(ivec4(roundEven(x[e] * (127.0 / size))), -127, 127);
    const int sum = sum_of_lanes(code.x + code.y + code.z + code.w, 4u);
    const float scale = finite ? size / 127.0 : NOT_A_NUMBER;
    if (i >= fours) continue;
    const uvec4 bytes = uvec4(code) & 255u;
    const uint at = (i >> 2 & 3u) * (k / 64u) + (i >> 4);
    group_code[at][i & 3u] = bytes.x | bytes.y << 8 | bytes.z << 16 | bytes.w << 24;
    if ((i & 3u) == 0u) group_scale[at] = vec2(scale, scale * float(sum));
  }
}

/// Where group g of a unit's activations lies.
uint code_at(int format, uint units, uint unit, uint g) {
  if (format == Q6_K) return ((unit & 1u) + 2u * (g & 1u)) * units + unit / 4u * 4u + (unit >> 1 & 1u) * 2u + (g >> 1);
  return g * units + unit;
}

/// What a tile's outputs become; `total`: that of row r in lane r.
void finish_tile(uint s, uint run, uint tile, uint i, float total) {
  const uint outputs = tile_outputs(), row = (tile - part_first_tile(i)) * outputs + lane_of_subgroup, stamp = run + s;
  const bool paired = is_paired();
  const float up = subgroupShuffleXor(total, uint(rows) / 2u);
  const bool mine = lane_of_subgroup < outputs && row < part_n(i);
  if (!mine) {
  } else if (paired) {
    total = total * sigmoid_of(total) * up;
  } else {
    if (has_bias() && part_bias(i) != 0ul) total += load_packed(part_bias(i), part_bias_dtype(i), row);
    const uint c_word = part_c_word(i);
    if (c_word != CHAIN_NONE) total += await_found(next_c, c_word + row, run + part_c_stage(i));
    else if (part_c(i) != 0ul) total += uintBitsToFloat(next_c.x);
  }
  if (blocks_out > 0) add_to_block(mine, work_local / (16u / outputs), row, total, stamp);
  if (mine && part_y_word(i) != CHAIN_NONE) post(part_y_word(i) + row, total, stamp);
  if (mine && part_y(i) != 0ul) Float(part_y(i) + uint64_t(row) * 4ul).v = total;
}

/// The sums of all lanes: that of row r in lane r.
float sums_of_rows(float sum[rows]) {
  if (used_rows == 1) {
    float all = sum[0];
    for (uint d = 1u; d < subgroup_lanes; d *= 2u) all += subgroupShuffleXor(all, d);
    return all;
  }
  const bool upper = (lane_of_subgroup & 1u) != 0u;
  float total = (upper ? sum[1] : sum[0]) + subgroupShuffleXor(upper ? sum[0] : sum[1], 1u);
  for (uint d = 2u; d < subgroup_lanes; d *= 2u) total += subgroupShuffleXor(total, d);
  return total;
}

/// Eight weights of f16.
float add_eight(uvec4 h, uint eight, uint units, float sum) {
  if (eight < units) {
    const vec4 a = pool[2u * eight], b = pool[2u * eight + 1u];
    const vec2 h0 = unpackHalf2x16(h.x), h1 = unpackHalf2x16(h.y), h2 = unpackHalf2x16(h.z), h3 = unpackHalf2x16(h.w);
    sum = fma(a.y, h0.y, fma(a.x, h0.x, sum));
    sum = fma(a.w, h1.y, fma(a.z, h1.x, sum));
    sum = fma(b.y, h2.y, fma(b.x, h2.x, sum));
    sum = fma(b.w, h3.y, fma(b.z, h3.x, sum));
  }
  return sum;
}

#define ITEM_OF(format_)                                                                             \
  if (is(format, format_)) {                                                                         \
    UnitRow row;                                                                                     \
    [[unroll]] for (uint g = 0u; g < 4u; ++g) {                                                      \
      const uint at = code_at(format_, units, min(unit, units - 1u), g);                             \
      row.code[g] = group_code[at];                                                                  \
      row.scale[g] = group_scale[at];                                                                \
      if (begins_below(format_)) row.share[g] = dot16(uvec4(bytes_of_begin(format_)), row.code[g]);  \
    }                                                                                                \
    [[unroll]] for (int r = 0; r < rows; ++r) {                                                      \
      if (r < used_rows) {                                                                           \
        const float more = add_unit(format_, ring_unit[r], unit, row, sum[r]);                       \
        if (unit < units) sum[r] = more;                                                             \
        if (any_more) load_row(r);                                                                   \
      }                                                                                              \
    }                                                                                                \
  }

float sum[rows];

/// The item at work.
void multiply_item() {
  const uint units = to.units, unit = work_step * subgroup_lanes + lane_of_subgroup;
  const int format = part_format(work_part);
  const bool any_more = once == 0 && to.tile < stage_tiles();
  if (is(format, F16)) {
    const uint eight = work_step * 4u * subgroup_lanes + lane_of_subgroup;
    [[unroll]] for (int r = 0; r < rows; ++r) {
      if (r < used_rows) {
        sum[r] = add_eight(ring_unit[r].q[0], eight, units, sum[r]);
        sum[r] = add_eight(ring_unit[r].q[1], eight + subgroup_lanes, units, sum[r]);
        sum[r] = add_eight(ring_unit[r].q[2], eight + 2u * subgroup_lanes, units, sum[r]);
        sum[r] = add_eight(ring_unit[r].q[3], eight + 3u * subgroup_lanes, units, sum[r]);
        if (any_more) load_row(r);
      }
    }
  } else {
    ITEM_OF(Q4_0) ITEM_OF(Q4_1) ITEM_OF(Q5_0) ITEM_OF(Q5_1) ITEM_OF(Q8_0) ITEM_OF(Q4_K) ITEM_OF(Q5_K) ITEM_OF(Q6_K)
  }
  if (any_more) load_on();
  ++work_step;
}
/// Behind a tile's last item.
void end_tile(uint s, uint run, float factor) {
  finish_tile(s, run, work_tile, work_part, sums_of_rows(sum) * factor);
  if (once != 0) return;
  [[unroll]] for (int r = 0; r < rows; ++r) sum[r] = 0.0;
  work_step = 0u;
  work_local += gl_NumSubgroups;
  work_tile = tile_at(work_local);
  if (work_tile >= stage_tiles()) return;
  while (work_part + 1u < uint(stage_parts()) && work_tile >= part_first_tile(work_part + 1u)) ++work_part;
  load_c(work_tile, work_part);
}

void multiply(uint s, uint run) {
  float factor = 1.0;
  if (kind == source_norm) {
    float some = 0.0;
    for (uint i = lane_of_subgroup; i < gl_NumSubgroups; i += subgroup_lanes) some += group_part[i];
    factor = 1.0 / sqrt(subgroupAdd(some) / float(widest) + stage_epsilon());
  }
  [[unroll]] for (int r = 0; r < rows; ++r) sum[r] = 0.0;
  while (work_tile < stage_tiles()) {
    multiply_item();
    if (once != 0 || work_step >= to.steps) end_tile(s, run, factor);
    if (once != 0) return;
  }
}
