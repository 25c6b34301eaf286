// What gemv_one.comp and gemv_floats.comp share: products of one row. Products of the same row have ranges of workgroups; within one, tiles of two
// outputs go to workgroups first, then to subgroups, so that each multiprocessor has as many as another.
#define PLAIN 0
#define NORM 1
#define GLU 2

const int rows_at_once = 2;  // paired: the one of b[0] and the one of b[1]
const int lanes_of_group = int(gl_WorkGroupSize.x);
const uint fours = uint(k) / 4u;
const int fours_at_once = 8;
const int fours_a_lane = (k / 4 + lanes_of_group - 1) / lanes_of_group;
const uint share_of_row = uint(fours_at_once * lanes_of_group);
#define MOST_SUBGROUPS 128
shared float squares_of[MOST_SUBGROUPS];

uint lanes, lane_of_subgroup;
uint part, n, tiles, tile_stride;
uint64_t weights[2];
uint to_tile, to_step;  // the item to load: one ahead of the one at work
vec4 row_four[fours_at_once], row_other[fours_at_once];
float squares = 0.0;
float residual;  // of this lane's output of the tile at work

void open_part() {
  lanes = subgroupAdd(1u);
  lane_of_subgroup = subgroupExclusiveAdd(1u);
  const uint group = gl_WorkGroupID.x;
  uint first = 0u, end = gl_NumWorkGroups.x;
  part = 0u;
  if (parts > 1) {
    const uint second = p.begins & 0xffffu, third = parts > 2 ? p.begins >> 16 : end;
    part = group >= third ? 2u : group >= second ? 1u : 0u;
    first = part == 0u ? 0u : part == 1u ? second : third;
    end = part == 0u ? second : part == 1u ? third : end;
  }
  n = part == 0u ? p.n[0] : part == 1u ? p.n[1] : p.n[2];
  weights[0] = part == 0u ? p.b[0] : part == 1u ? p.b[1] : p.b[2];
  weights[1] = p.b[1];
  tiles = paired != 0 ? n : (n + 1u) / 2u;
  tile_stride = (end - first) * gl_NumSubgroups;
  to_tile = gl_SubgroupID * (end - first) + (group - first);
  to_step = 0u;
}

/// A share of the row: `fours_at_once` groups of four a lane. Loops have a length that the compiler knows, else arrays go to local memory.
void ask_for_row(uint first) {
  [[unroll]] for (int e = 0; e < fours_at_once; ++e) {
    const uint i = first + gl_LocalInvocationID.x + uint(e * lanes_of_group);
    row_four[e] = row_other[e] = vec4(0.0);
    if (e < fours_a_lane && i < fours) {
      row_four[e] = Float4(p.x + uint64_t(i) * 16ul).v;
      if (mode != PLAIN) row_other[e] = Float4(p.other + uint64_t(i) * 16ul).v;
    }
  }
}

/// The share that was asked for, without a norm's factor.
void make_row() {
  if (mode == PLAIN) return;
  [[unroll]] for (int e = 0; e < fours_at_once; ++e) {
    if (e < fours_a_lane) {
      vec4 x = row_four[e];
      if (mode == NORM) {
        squares += dot(x, x);
        x *= row_other[e] + p.offset;
      } else {
        x = vec4(x.x * sigmoid_of(x.x), x.y * sigmoid_of(x.y), x.z * sigmoid_of(x.z), x.w * sigmoid_of(x.w)) * row_other[e];
      }
      row_four[e] = x;
    }
  }
}
/// Before the workgroup's barrier.
void leave_squares() {
  if (mode != NORM) return;
  squares = subgroupAdd(squares);
  if (lane_of_subgroup == 0u) squares_of[gl_SubgroupID] = squares;
}
/// Behind the workgroup's barrier.
float factor_of_norm() {
  if (mode != NORM) return 1.0;
  float some = 0.0;
  for (uint i = lane_of_subgroup; i < gl_NumSubgroups; i += lanes) some += squares_of[i];
  return 1.0 / sqrt(subgroupAdd(some) / float(k) + p.epsilon);
}

/// What is added to a tile's outputs, asked for before its weights are at work.
void load_residual(uint tile) {
  residual = 0.0;
  if (paired != 0 || p.c == 0ul) return;
  const uint j = tile * 2u + lane_of_subgroup;
  if (lane_of_subgroup < 2u && j < n) residual = Float(p.c + uint64_t(j) * 4ul).v;
}

/// The sums over all lanes: of row r in lane r.
float sums_of_rows(float first, float second) {
  const bool upper = (lane_of_subgroup & 1u) != 0u;
  float total = (upper ? second : first) + subgroupShuffleXor(upper ? first : second, 1u);
  for (uint d = 2u; d < lanes; d *= 2u) total += subgroupShuffleXor(total, d);
  return total;
}

/// What a tile's outputs become; `total`: that of row r in lane r.
void finish_tile(uint tile, float total) {
  const uint64_t y = part == 0u ? p.y[0] : part == 1u ? p.y[1] : p.y[2];
  if (paired != 0) {
    const float up = subgroupShuffleXor(total, 1u);
    if (lane_of_subgroup == 0u) Float(y + uint64_t(tile) * 4ul).v = total * sigmoid_of(total) * up;
    return;
  }
  const uint j = tile * 2u + lane_of_subgroup;
  if (lane_of_subgroup >= 2u || j >= n) return;
  const uint64_t bias = part == 0u ? p.bias[0] : part == 1u ? p.bias[1] : p.bias[2];
  if (bias != 0ul) total += load_packed(bias, p.bias_dtype, j);
  Float(y + uint64_t(j) * 4ul).v = total + residual;
}
