// Tiles of attention in f32: products of queries and keys, and weighted sums of rows, through shared memory.
//
// A workgroup of side x side invocations has a tile of 4 side rows: of queries, or of keys. It goes through tiles of as many rows of the other kind.
//
// Dots are made in steps of 16 elements. Invocation (x, y) has rows y + i side of its tile. Of the other tile it has the four rows from 4 x on.
//
// For sums the weights lie in shared memory, four neighbours together. The rows that they weigh come by 16.
//
// What a row does not see has a weight of 0. Where rows that are weighed hold what is not finite, weights of 0 are left out.
//
// Constants 2: side; 3, 4: elements of a row of q and of v that an invocation has.
#include "fours.glsl"
layout(constant_id = 2) const uint side = 16;
layout(constant_id = 3) const uint own_d = 4;
layout(constant_id = 4) const uint own_dv = 4;
const uint own = 4, tile = own * side, threads = side * side, lanes_a_row = side / 4;
const uint fours = 4, depth = 4 * fours, pitch = fours + 1, weight_pitch = tile / 4 + 1;
const uint dot_loads = tile * fours / threads;
const uint columns = side * (own_d > own_dv ? own_d : own_dv), others = tile > columns ? tile : columns;

shared vec4 left_tile[tile * pitch];
shared vec4 right_tile[others * pitch];
shared vec4 weights[tile * weight_pitch];
shared float partial[threads];
shared uint strange;  // whether rows that are weighed hold what is not finite

uint own_x() { return gl_LocalInvocationID.x % side; }
uint own_y() { return gl_LocalInvocationID.x / side; }

/// Rows of one head.
struct Rows {
  uint64_t start;
  int64_t apart;
  int step, dtype;
  uint end, n;
  bool wide;
};
Rows rows_at(uint64_t start, int64_t apart, int step, int dtype, uint end, uint n) {
  const uint bytes = float_bytes(dtype);
  return Rows(start, apart, step, dtype, end, n, uint(step) == bytes && n % 4u == 0u && (uint(start | uint64_t(apart)) & 4u * bytes - 1u) == 0u);
}
#define ROWS(view, b, head, end, n) rows_at(PLACE(view, b, 0u, head), (view).stride[1], (view).step, (view).dtype, end, n)

uint64_t place_in(Rows r, uint row, uint c) { return r.start + uint64_t(int64_t(row) * r.apart + int64_t(c) * int64_t(r.step)); }
/// Four elements of a row, zeros behind the last and of rows behind the last.
vec4 four_along(Rows r, uint row, uint c) {
  vec4 v = vec4(0.0);
  if (row >= r.end) return v;
  if (r.wide) return c < r.n ? wide_four(place_in(r, row, c), r.dtype) : v;
  [[unroll]] for (uint e = 0u; e < 4u; ++e)
    if (c + e < r.n) v[e] = load_float(place_in(r, row, c + e), r.dtype);
  return v;
}
vec4 four_across(Rows r, uint row, uint c) {
  vec4 v = vec4(0.0);
  if (c >= r.n) return v;
  [[unroll]] for (uint e = 0u; e < 4u; ++e)
    if (row + e < r.end) v[e] = load_float(place_in(r, row + e, c), r.dtype);
  return v;
}

/// sum[4 i + j] += row own_y() + i side of the left tile times row 4 own_x() + j of the right one. The next step's elements come into registers while
/// this one's are multiplied.
void add_dots(inout float sum[own * own], Rows left, uint left_first, Rows right, uint right_first) {
  const uint x = own_x(), y = own_y(), t = gl_LocalInvocationID.x;
  vec4 next_left[dot_loads], next_right[dot_loads];
  for (uint k = 0u; k < left.n + depth; k += depth) {  // elements up to k have come
    if (k > 0u) {
      barrier();
      [[unroll]] for (uint i = 0u; i < dot_loads; ++i) {
        const uint item = t + i * threads, row = item / fours, four = item % fours;
        left_tile[row * pitch + four] = next_left[i];
        right_tile[(row % own * side + row / own) * pitch + four] = next_right[i];
      }
      barrier();
    }
    if (k < left.n) {
      [[unroll]] for (uint i = 0u; i < dot_loads; ++i) {
        const uint item = t + i * threads, row = item / fours, c = k + 4u * (item % fours);
        next_left[i] = four_along(left, left_first + row, c);
        next_right[i] = four_along(right, right_first + row, c);
      }
    }
    if (k == 0u) continue;
    for (uint four = 0u; four < fours; ++four) {
      vec4 b[own];
      [[unroll]] for (uint j = 0u; j < own; ++j) b[j] = right_tile[(x + j * side) * pitch + four];
      [[unroll]] for (uint i = 0u; i < own; ++i) {
        const vec4 a = left_tile[(y + i * side) * pitch + four];
        [[unroll]] for (uint j = 0u; j < own; ++j)
          [[unroll]] for (uint e = 0u; e < 4u; ++e) sum[i * own + j] = fma(a[e], b[j][e], sum[i * own + j]);
      }
    }
  }
}

/// Shares what add_dots() leaves, as weights of the rows of the other tile.
void share_weights(float w[own * own]) {
  [[unroll]] for (uint i = 0u; i < own; ++i)
    weights[(own_y() + i * side) * weight_pitch + own_x()] = vec4(w[i * own], w[i * own + 1u], w[i * own + 2u], w[i * own + 3u]);
}

/// total[count i + j] += the weights of rows that are in shared memory times what they weigh; the second leaves out weights of 0.
#define ADD_FOURS(total, count, from)                                                                                          \
  for (uint four = 0u; four < fours; ++four) {                                                                                 \
    vec4 w[own];                                                                                                               \
    [[unroll]] for (uint i = 0u; i < own; ++i) w[i] = weights[(own_y() + i * side) * weight_pitch + (from) / 4u + four];       \
    [[unroll]] for (uint j = 0u; j < (count); ++j) {                                                                           \
      const vec4 v = right_tile[(own_x() + j * side) * pitch + four];                                                          \
      [[unroll]] for (uint i = 0u; i < own; ++i)                                                                               \
        [[unroll]] for (uint e = 0u; e < 4u; ++e) total[i * (count) + j] = fma(w[i][e], v[e], total[i * (count) + j]);         \
    }                                                                                                                          \
  }
#define ADD_SEEN(total, count, from)                                                                                           \
  for (uint at = 0u; at < depth; ++at) {                                                                                       \
    float w[own];                                                                                                              \
    [[unroll]] for (uint i = 0u; i < own; ++i) w[i] = weights[(own_y() + i * side) * weight_pitch + ((from) + at) / 4u][at % 4u];\
    [[unroll]] for (uint j = 0u; j < (count); ++j) {                                                                           \
      const float v = right_tile[(own_x() + j * side) * pitch + at / 4u][at % 4u];                                             \
      [[unroll]] for (uint i = 0u; i < own; ++i) total[i * (count) + j] = fma(w[i], w[i] == 0.0 ? 0.0 : v, total[i * (count) + j]);\
    }                                                                                                                          \
  }

/// Four elements of the 16 rows from `row` on, of which `width` are weighed: neighbours along a row where those can be read at once, else across rows.
vec4 weighed_four(Rows r, uint item, uint row, uint width) {
  if (item >= width * fours) return vec4(0.0);
  return r.wide ? four_along(r, row + item % depth, item / depth * 4u) : four_across(r, row + item / width * 4u, item % width);
}
void keep_weighed(bool wide, uint item, uint width, vec4 v) {
  if (item >= width * fours) return;
  if (!is_finite(v.x) || !is_finite(v.y) || !is_finite(v.z) || !is_finite(v.w)) strange = 1u;
  if (wide) {
    [[unroll]] for (uint e = 0u; e < 4u; ++e) right_tile[(item / depth * 4u + e) * pitch + item % depth / 4u][item % 4u] = v[e];
  } else {
    right_tile[item % width * pitch + item / width] = v;
  }
}
#define WEIGHED_LOADS(count) (((count) * side * fours + threads - 1u) / threads)

/// total[count i + j] += weights of row own_y() + i side, times elements own_x() + j side of the rows from `first` on.
#define ADD_WEIGHTED(total, count, rows, first)                                                                                \
  {                                                                                                                            \
    vec4 next_rows[WEIGHED_LOADS(count)];                                                                                      \
    for (uint end = 0u; end <= tile; end += depth) {  /* rows up to there have come */                                         \
      if (end > 0u) {                                                                                                          \
        barrier();                                                                                                             \
        [[unroll]] for (uint i = 0u; i < WEIGHED_LOADS(count); ++i)                                                            \
          keep_weighed(rows.wide, gl_LocalInvocationID.x + i * threads, (count) * side, next_rows[i]);                         \
        barrier();                                                                                                             \
      }                                                                                                                        \
      if (end < tile)                                                                                                          \
        [[unroll]] for (uint i = 0u; i < WEIGHED_LOADS(count); ++i)                                                            \
          next_rows[i] = weighed_four(rows, gl_LocalInvocationID.x + i * threads, (first) + end, (count) * side);              \
      if (end == 0u) continue;                                                                                                 \
      const uint from = end - depth;                                                                                           \
      if (strange == 0u) ADD_FOURS(total, count, from)                                                                         \
      else ADD_SEEN(total, count, from)                                                                                        \
    }                                                                                                                          \
  }

/// Stores what ADD_WEIGHTED makes, each row times `factor`.
#define STORE_ROWS(view, b, head, total, count, n, first, end, factor)                                                         \
  {                                                                                                                            \
    float made[own * (count)];  /* one piece of code for all, since there are three types */                              \
    [[unroll]] for (uint o = 0u; o < own * (count); ++o) made[o] = total[o];                                                   \
    for (uint o = 0u; o < own * (count); ++o) {                                                                                \
      const uint in_tile = own_y() + o / (count) * side, c = own_x() + o % (count) * side;                                     \
      if ((first) + in_tile >= (end) || c >= (n)) continue;                                                                    \
      const uint64_t to = PLACE(view, b, (first) + in_tile, head) + uint64_t(int64_t(c) * int64_t((view).step));               \
      store_float(to, (view).dtype, made[o] * (factor));                                                                       \
    }                                                                                                                          \
  }
