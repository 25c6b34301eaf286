// Products of chain.comp. A tile is two outputs of a subgroup, or one of a gate and its up; tiles go to workgroups first, then to subgroups.
// The order of summation is gemv_one.comp's.
const int rows_at_once = 2;

PackedUnit next_unit[rows_at_once];
uvec4 next_c;  // two words of the residual, or two floats in x and y

uint first_tile() { return gl_WorkGroupID.x + gl_NumWorkGroups.x * gl_SubgroupID; }
uint part_of(uint w, uint tile) {
  uint i = 0u;
  [[unroll]] for (int j = 1; j < CHAIN_PARTS; ++j)
    if (j < stage_parts(w) && tile >= part_first_tile(w, uint(j))) i = uint(j);
  return i;
}
#define BIT(format_) (1 << ((format_) == F16 ? 0 : (format_) - Q4_0 + 1))
#define THREE_LOADS (BIT(F16) | BIT(Q8_0) | BIT(Q4_K) | BIT(Q5_K) | BIT(Q6_K))
#define FOUR_LOADS (BIT(F16) | BIT(Q8_0) | BIT(Q5_K))
bool has_format(int format) { return (formats & BIT(format)) != 0; }
/// Whether a format known at run time is this one: without a look at it where the pipeline has no other.
bool is(int format, const int which) { return has_format(which) && (formats == BIT(which) || format == which); }
bool has_quantised() { return (formats & ~BIT(F16)) != 0; }
/// Whether a format of this pipeline is one of a set: without a look at it where all are, or none.
bool is_one_of(int format, const int set) { return (formats & set) != 0 && ((formats & ~set) == 0 || (BIT(format) & set) != 0); }
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer WordPair { uvec2 v; };

/// 64 elements of a row as load_unit has them, but where they lie depends on a format known at run time only: places are found first, then all
/// loads are issued for whichever format, so that none is waited for. The head of Q4_K is in q[2]. Of weights of f16: four times eight
/// neighbours of a lane, each time side by side with those of the others. Lanes behind the end load its last elements again.
PackedUnit load_row(int format, uint64_t b, uint n, uint k, uint row, uint step) {
  PackedUnit u;
  u.q = uvec4[4](uvec4(0u), uvec4(0u), uvec4(0u), uvec4(0u));
  u.head = uvec4(0u);
  uint64_t at[4] = uint64_t[4](b, b, b, b), small = b, bits = b;
  const uint unit = min(step * subgroup_lanes + lane_of_subgroup, k / 64u - 1u);
  if (is(format, F16)) {
    const uint64_t begin = b + uint64_t(row) * uint64_t(k * 2u);
    [[unroll]] for (uint i = 0u; i < 4u; ++i) at[i] = begin + uint64_t(min((step * 4u + i) * subgroup_lanes + lane_of_subgroup, k / 8u - 1u) * 16u);
  } else if (is(format, Q4_K) || is(format, Q5_K)) {
    const uint bytes = format == Q4_K ? 144u : 176u;
    const uint64_t block = b + uint64_t(row) * uint64_t(k / 256u * bytes) + uint64_t(unit / 4u * bytes);
    at[0] = block + uint64_t((format == Q4_K ? 16u : 48u) + 32u * (unit % 4u));
    at[1] = at[0] + 16ul;
    at[2] = format == Q4_K ? block : block + 16ul;
    at[3] = block + 32ul;
    small = block;
  } else if (is(format, Q6_K)) {
    const Planes planes = planes_at(b, Q6_K, uint64_t(n) * uint64_t(k / 256u));
    const uint64_t block = uint64_t(row) * uint64_t(k / 256u) + uint64_t(unit / 4u);
    const uint h = unit >> 1 & 1u, side = unit & 1u;
    at[0] = planes.codes + block * 128ul + uint64_t(64u * h + 16u * side);
    at[1] = at[0] + 32ul;
    at[2] = planes.high + block * 64ul + uint64_t(32u * h + 16u * side);
    bits = planes.scales + block * 16ul + uint64_t(8u * h);
    small = planes.small + block * 2ul;
  } else {
    const uint64_t block = uint64_t(row) * uint64_t(k / 32u) + uint64_t(2u * unit);
#define PLACES_OF(format_)                                                            \
  if (is(format, format_)) {                                     \
    const Planes planes = planes_at(b, format_, uint64_t(n) * uint64_t(k / 32u));     \
    const uvec4 bytes = plane_bytes(format_);                                         \
    at[0] = planes.codes + block * uint64_t(bytes.y);                                 \
    small = planes.small + block * uint64_t(bytes.x);                                 \
    bits = planes.high + block * 4ul;                                                 \
  }
    PLACES_OF(Q4_0) PLACES_OF(Q4_1) PLACES_OF(Q5_0) PLACES_OF(Q5_1) PLACES_OF(Q8_0)
    [[unroll]] for (uint i = 1u; i < 4u; ++i) at[i] = at[0] + uint64_t(16u * i);
  }
  u.q[0] = words_at(at[0]);
  u.q[1] = words_at(at[1]);
  if (is_one_of(format, THREE_LOADS)) u.q[2] = words_at(at[2]);
  if (is_one_of(format, FOUR_LOADS)) u.q[3] = words_at(at[3]);
  if (is_one_of(format, BIT(Q5_K))) u.head = words_at(small);
  if (is_one_of(format, BIT(Q4_1) | BIT(Q5_1))) u.head.xy = WordPair(small).v;
  if (is_one_of(format, BIT(Q4_0) | BIT(Q5_0) | BIT(Q8_0))) u.head.x = Uint(small).v;
  if (is_one_of(format, BIT(Q5_0) | BIT(Q5_1))) u.head.zw = WordPair(bits).v;
  if (is_one_of(format, BIT(Q6_K))) {
    u.head.xy = WordPair(bits).v;
    u.head.z = short_at(small);
  }
  return u;
}
Unit decode_row(const int format, PackedUnit u, uint unit) {
  if (format == Q4_K) u.head = u.q[2];
  return decode_unit(format, u, unit);
}

void load_weights(uint s, uint tile, uint step) {
  const uint w = s & 3u, i = part_of(w, tile), n = part_n(w, i), k = stage_k(w), first = tile - part_first_tile(w, i);
  const int format = part_format(w, i);
  const bool paired = stage_paired(w) != 0;
  [[unroll]] for (int r = 0; r < rows_at_once; ++r)
    next_unit[r] = load_row(format, paired && r == 1 ? part_other_b(w, i) : part_b(w, i), n, k, paired ? first : min(first * 2u + uint(r), n - 1u), step);
}
void load_first(uint s) {
  if (first_tile() < stage_tiles(s & 3u)) load_weights(s, first_tile(), 0u);
}
/// The residual of a tile.
void load_c(uint w, uint tile) {
  next_c = uvec4(0u);
  if (tile >= stage_tiles(w) || lane_of_subgroup != 0u) return;
  const uint i = part_of(w, tile), row = (tile - part_first_tile(w, i)) * 2u;
  if (part_c_word(w, i) != CHAIN_NONE) {
    next_c = look_at_pair(part_c_word(w, i) + row);
  } else if (part_c(w, i) != 0ul) {
    const uint64_t c = part_c(w, i) + uint64_t(row) * 4ul;
    next_c.x = floatBitsToUint(Float(c).v);
    if (row + 1u < part_n(w, i)) next_c.y = floatBitsToUint(Float(c + 4ul).v);
  }
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
  const uint w = s & 3u, lane = gl_LocalInvocationID.x, k = stage_k(w), fours = k / 4u, word = stage_x_word(w);
  const bool norm = stage_kind(w) == NORM;
  const float offset = stage_offset(w);
  vec4 x[fours_a_lane], weight[fours_a_lane];
  load_c(w, first_tile());
  [[unroll]] for (int e = 0; e < fours_a_lane; ++e) {
    const uint i = lane + uint(e * lanes_of_group);
    if (norm && i < fours) weight[e] = Float4(stage_other(w) + uint64_t(i) * 16ul).v;
  }
  if (word == CHAIN_NONE) {
    [[unroll]] for (int e = 0; e < fours_a_lane; ++e) {
      const uint i = lane + uint(e * lanes_of_group);
      if (i < fours) x[e] = Float4(stage_x(w) + uint64_t(i) * 16ul).v;
    }
  } else {
    const uint stamp = run + s - 1u;
    uint looks = 0u;
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
  if (is(part_format(w, 0u), F16)) {
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

#define ADD_OF(format_)                                                                                                                       \
  if (is(format, format_)) {                                                                                                   \
    Unit u[rows_at_once];                                                                                                               \
    [[unroll]] for (int r = 0; r < rows_at_once; ++r) u[r] = decode_row(format_, now[r], unit);                                              \
    [[unroll]] for (uint g = 0u; g < 4u; ++g) {                                                                                         \
      const uint at = code_at(format_, units, unit, g);                                                                                       \
      const uvec4 code = group_code[at];                                                                                                \
      const vec2 scale = group_scale[at];                                                                                               \
      [[unroll]] for (int r = 0; r < rows_at_once; ++r)                                                                                 \
        sum[r] = fma(u[r].f[g], scale.x * float(dot16(u[r].code[g], code)), fma(u[r].m[g], scale.y, sum[r]));                           \
    }                                                                                                                                   \
  }

void multiply(uint s, uint run) {
  const uint w = s & 3u, k = stage_k(w), units = k / 64u, tiles = stage_tiles(w), stride = gl_NumWorkGroups.x * gl_NumSubgroups;
  const bool paired = stage_paired(w) != 0;
  float factor = 1.0;
  if (stage_kind(w) == NORM) {
    float some = 0.0;
    for (uint i = lane_of_subgroup; i < gl_NumSubgroups; i += subgroup_lanes) some += group_part[i];
    factor = 1.0 / sqrt(subgroupAdd(some) / float(k) + stage_epsilon(w));
  }
  for (uint tile = first_tile(); tile < tiles; tile += stride) {
    const uint i = part_of(w, tile);
    const int format = part_format(w, i);
    const bool half_weights = is(format, F16);
    const uint steps = half_weights ? (k / 32u + subgroup_lanes - 1u) / subgroup_lanes : (units + subgroup_lanes - 1u) / subgroup_lanes;
    float sum[rows_at_once];
    [[unroll]] for (int r = 0; r < rows_at_once; ++r) sum[r] = 0.0;
    const uvec4 c = next_c;
    load_c(w, tile + stride);
    for (uint step = 0u; step < steps; ++step) {
      const PackedUnit now[rows_at_once] = next_unit;
      const bool last = step + 1u == steps;
      if (!last || tile + stride < tiles) load_weights(s, last ? tile + stride : tile, last ? 0u : step + 1u);
      const uint unit = step * subgroup_lanes + lane_of_subgroup;
      if (half_weights) {
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
          const uint eight = (step * 4u + j) * subgroup_lanes + lane_of_subgroup;
          if (eight >= k / 8u) continue;
          const vec4 a = pool[2u * eight], b = pool[2u * eight + 1u];
          [[unroll]] for (int r = 0; r < rows_at_once; ++r) {
            const uvec4 h = now[r].q[j];
            const vec2 h0 = unpackHalf2x16(h.x), h1 = unpackHalf2x16(h.y), h2 = unpackHalf2x16(h.z), h3 = unpackHalf2x16(h.w);
            sum[r] = fma(a.y, h0.y, fma(a.x, h0.x, sum[r]));
            sum[r] = fma(a.w, h1.y, fma(a.z, h1.x, sum[r]));
            sum[r] = fma(b.y, h2.y, fma(b.x, h2.x, sum[r]));
            sum[r] = fma(b.w, h3.y, fma(b.z, h3.x, sum[r]));
          }
        }
      } else if (unit < units) {
        ADD_OF(Q4_0) ADD_OF(Q4_1) ADD_OF(Q5_0) ADD_OF(Q5_1) ADD_OF(Q8_0) ADD_OF(Q4_K) ADD_OF(Q5_K) ADD_OF(Q6_K)
      }
    }
    vec2 total;
    [[unroll]] for (int r = 0; r < rows_at_once; ++r) total[r] = subgroupAdd(sum[r]) * factor;
    if (lane_of_subgroup != 0u) continue;
    const uint first = tile - part_first_tile(w, i), y_word = part_y_word(w, i), stamp = run + s;
    const uint64_t y = part_y(w, i);
    if (paired) {
      const float v = total.x * sigmoid_of(total.x) * total.y;
      if (y_word != CHAIN_NONE) post(y_word + first, v, stamp);
      if (y != 0ul) Float(y + uint64_t(first) * 4ul).v = v;
      continue;
    }
    const uint row = first * 2u;
    const bool both = row + 1u < part_n(w, i);
    if (has_bias() && part_bias(w, i) != 0ul) {
      total.x += load_packed(part_bias(w, i), part_bias_dtype(w, i), row);
      if (both) total.y += load_packed(part_bias(w, i), part_bias_dtype(w, i), row + 1u);
    }
    const uint c_word = part_c_word(w, i);
    if (c_word != CHAIN_NONE) {
      const uint c_stamp = run + part_c_stage(w, i);
      total.x += await_found(c.xy, c_word + row, c_stamp);
      if (both) total.y += await_found(c.zw, c_word + row + 1u, c_stamp);
    } else {
      total += uintBitsToFloat(c.xy);
    }
    if (y_word != CHAIN_NONE) {
      if (both) post_pair(y_word + row, total, stamp);
      else post(y_word + row, total.x, stamp);
    }
    if (y != 0ul) {
      Float(y + uint64_t(row) * 4ul).v = total.x;
      if (both) Float(y + uint64_t(row + 1u) * 4ul).v = total.y;
    }
  }
}
