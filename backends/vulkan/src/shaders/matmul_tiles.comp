#version 460
// y = alpha a b^T + bias + beta c in f32, of floats under any strides and transposes, by tiles.
//
//   workgroup  side x side invocations make a tile of own_m * side rows and own_n * side columns of y
//   step       16 of k. A row's 16 lie together in shared memory as four vec4, with one between rows: those of eight neighbours share no bank
//   staging    the next step's elements come into registers while this one's are multiplied. Neighbours read along k, or across rows where an
//              operand lies so
//   parts      a long k with few tiles is cut into parts, whose sums matmul_sums.comp adds
//
// An output's sum runs along k in order, or its part's does: it does not depend on other rows.
// Constants 1, 2: dtypes of a and b; 3: side; 4, 5: own rows and columns; 6: 1 where rows of a are
// neighbours, 2 where those of b are; 4 and 8 where four of k can be read at once.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "prelude.glsl"
layout(constant_id = 1) const int a_dtype = F32;
layout(constant_id = 2) const int b_dtype = F32;
layout(constant_id = 3) const uint side = 16;
layout(constant_id = 4) const uint own_m = 8;
layout(constant_id = 5) const uint own_n = 8;
layout(constant_id = 6) const int lies = 0;
STORED(MatmulParams)
#define p (ParamsAt(stored).params)
#include "product.glsl"
#include "fours.glsl"
const uint fours = 4, depth = 4 * fours, pitch = fours + 1;
const uint tile_m = side * own_m, tile_n = side * own_n, threads = side * side;
const uint loads_a = tile_m * fours / threads, loads_b = tile_n * fours / threads;

shared vec4 tile_a[tile_m * pitch];
shared vec4 tile_b[tile_n * pitch];

/// Which row and four of a tile the load i of this invocation is.
uvec2 place_of(uint i, uint rows, bool across) {
  const uint item = gl_LocalInvocationID.x + i * threads;
  return across ? uvec2(item % rows, item / rows) : uvec2(item / fours, item % fours);
}
vec4 four_of(uint64_t row, int64_t apart, const int dtype, const bool wide, uint k, uint end) {
  uint64_t at = row + uint64_t(int64_t(k) * apart);
  if (wide) return k < end ? wide_four(at, dtype) : vec4(0.0);
  vec4 v = vec4(0.0);
  [[unroll]] for (uint e = 0; e < 4u; ++e) {
    if (k + e < end) v[e] = load_float(at, dtype);
    at += uint64_t(apart);
  }
  return v;
}

void multiply(Places at, uint first_row, uint first_column, uint begin, uint end, uint64_t partial) {
  const uint x = gl_LocalInvocationID.x % side, y = gl_LocalInvocationID.x / side;
  const bool across_a = (lies & 1) != 0, across_b = (lies & 2) != 0;
  uint64_t a_row[loads_a], b_row[loads_b];
  uint a_spot[loads_a], b_spot[loads_b], a_k[loads_a], b_k[loads_b];
  [[unroll]] for (uint i = 0; i < loads_a; ++i) {
    const uvec2 place = place_of(i, tile_m, across_a);
    a_row[i] = at.a + uint64_t(p.a_row * int64_t(min(first_row + place.x, p.m - 1u)));
    a_spot[i] = place.x * pitch + place.y;
    a_k[i] = place.y * 4u;
  }
  [[unroll]] for (uint i = 0; i < loads_b; ++i) {
    const uvec2 place = place_of(i, tile_n, across_b);
    b_row[i] = at.b + uint64_t(p.b_row * int64_t(min(first_column + place.x, p.n - 1u)));
    b_spot[i] = place.x * pitch + place.y;
    b_k[i] = place.y * 4u;
  }
  float sum[own_m * own_n];
  [[unroll]] for (uint i = 0; i < own_m * own_n; ++i) sum[i] = 0.0;
  vec4 next_a[loads_a], next_b[loads_b];
#define LOAD(from)                                                                                                    \
  [[unroll]] for (uint i = 0; i < loads_a; ++i) next_a[i] = four_of(a_row[i], p.a_step, a_dtype, (lies & 4) != 0, (from) + a_k[i], end); \
  [[unroll]] for (uint i = 0; i < loads_b; ++i) next_b[i] = four_of(b_row[i], p.b_step, b_dtype, (lies & 8) != 0, (from) + b_k[i], end);
  LOAD(begin)
  for (uint k = begin; k < end; k += depth) {
    barrier();  // what the step before shared has been read
    [[unroll]] for (uint i = 0; i < loads_a; ++i) tile_a[a_spot[i]] = next_a[i];
    [[unroll]] for (uint i = 0; i < loads_b; ++i) tile_b[b_spot[i]] = next_b[i];
    barrier();
    LOAD(k + depth)
    [[unroll]] for (uint four = 0; four < fours; ++four) {
      vec4 b[own_n];
      [[unroll]] for (uint j = 0; j < own_n; ++j) b[j] = tile_b[(x + j * side) * pitch + four];
      [[unroll]] for (uint i = 0; i < own_m; ++i) {
        const vec4 a = tile_a[(y + i * side) * pitch + four];
        [[unroll]] for (uint j = 0; j < own_n; ++j) {
          float s = sum[i * own_n + j];
          [[unroll]] for (uint e = 0; e < 4u; ++e) s = fma(a[e], b[j][e], s);
          sum[i * own_n + j] = s;
        }
      }
    }
  }
  [[unroll]] for (uint i = 0; i < own_m; ++i)
    [[unroll]] for (uint j = 0; j < own_n; ++j) {
      const uint row = first_row + y + i * side, column = first_column + x + j * side;
      if (row >= p.m || column >= p.n) continue;
      if (partial != 0ul) Float(partial + (uint64_t(row) * uint64_t(p.n) + uint64_t(column)) * 4ul).v = sum[i * own_n + j];
      else finish(at, row, column, sum[i * own_n + j]);
    }
}

void main() {
  for (uint z = gl_WorkGroupID.z; z < p.batch * p.parts; z += gl_NumWorkGroups.z) {
    const uint batch = z / p.parts, begin = min(z % p.parts * p.part_k, p.k), end = min(begin + p.part_k, p.k);
    const Places at = places_of(batch);
    const uint64_t partial = p.parts == 1u ? 0ul : p.partial + uint64_t(z) * uint64_t(p.m) * uint64_t(p.n) * 4ul;
    for (uint row = gl_WorkGroupID.y * tile_m; row < p.m; row += gl_NumWorkGroups.y * tile_m)
      for (uint column = gl_WorkGroupID.x * tile_n; column < p.n; column += gl_NumWorkGroups.x * tile_n) multiply(at, row, column, begin, end, partial);
  }
}
