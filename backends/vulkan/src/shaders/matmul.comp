#version 460
// y = alpha a b^T + bias + beta c for rows of a and b that are packed; or, with ids, each row of a times the matrix
// of its expert. A subgroup computes `tile_n` rows of b times `tile_m` rows of a, its lanes striding along k by 16 elements.
//
// The order of summation depends on k and the subgroup alone, so a row's bits do not depend on the other rows or the tile.
// Constant 1: format of b; 2: dtype of a; 3: rows of a; 4: with ids; 5: k is no multiple of 16 (floats);
// 6: b lies in planes.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "prelude.glsl"
#include "blocks.glsl"
#include "any_format.glsl"
#include "planes.glsl"
layout(constant_id = 1) const int format = F32;
layout(constant_id = 2) const int a_dtype = F32;
layout(constant_id = 3) const int tile_m = 1;
layout(constant_id = 4) const int with_ids = 0;
layout(constant_id = 5) const int with_tail = 0;
layout(constant_id = 6) const int packed = 0;
const int tile_n = 4;
STORED(MatmulParams)
#define p (ParamsAt(stored).params)
#include "product.glsl"

/// Of a row with ids, which is a token's and one of the experts that it uses: from token to token, and from expert to expert.
int64_t two_steps(uint row, int64_t token, int64_t used) { return int64_t(row / uint(p.used)) * token + int64_t(row % uint(p.used)) * used; }

void main() {
  const uint lanes = subgroupAdd(1u), lane = subgroupExclusiveAdd(1u);  // whatever the driver packed into this subgroup
  const uint units = (p.k + 15u) / 16u, n_block = any_block_elements(format), n_bytes = any_block_bytes(format), per_block = n_block / 16u;
  for (uint z = gl_WorkGroupID.z; z < p.batch; z += gl_NumWorkGroups.z) {
    const Places at = places_of(z);
    const uint64_t a = at.a, b = at.b;
    for (uint row = gl_WorkGroupID.y * uint(tile_m); row < p.m; row += gl_NumWorkGroups.y * uint(tile_m)) {
      bool absent = false;
      uint64_t expert = b;
      uint64_t a_row[tile_m];
      [[unroll]] for (int t = 0; t < tile_m; ++t) a_row[t] = a + uint64_t(with_ids != 0 ? two_steps(row, p.a_row, p.a_step) : p.a_row * int64_t(min(row + uint(t), p.m - 1u)));
      if (with_ids != 0) {
        const int id = Int(p.ids + uint64_t(row) * 4ul).v;
        absent = id < 0 || id >= p.experts;
        if (absent && id != -1 && gl_GlobalInvocationID.x == 0u) raise(p.faults, FAULT_INDEX_RANGE);
        expert = b + uint64_t(absent ? 0 : id) * uint64_t(p.b_expert);
      }
      for (uint first = (gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID) * uint(tile_n); first < p.n;
           first += gl_NumWorkGroups.x * gl_NumSubgroups * uint(tile_n)) {
        float sum[tile_m * tile_n];
        [[unroll]] for (int i = 0; i < tile_m * tile_n; ++i) sum[i] = 0.0;
        uint64_t b_row[tile_n];
        [[unroll]] for (int r = 0; r < tile_n; ++r) b_row[r] = expert + uint64_t(p.b_row * int64_t(min(first + uint(r), p.n - 1u)));
        for (uint unit = lane; unit < units && !absent; unit += lanes) {
          const uint64_t block = uint64_t(unit / per_block) * uint64_t(n_bytes);
          Group group[tile_n];
          if (packed != 0) {
            const Planes planes = planes_at(b, format, p.b_blocks);
            [[unroll]] for (int r = 0; r < tile_n; ++r)
              group[r] = open_packed(planes, uint64_t(min(first + uint(r), p.n - 1u)) * uint64_t(p.k / n_block) + uint64_t(unit / per_block), format,
                                     unit % per_block * 16u);
          } else {
            [[unroll]] for (int r = 0; r < tile_n; ++r) group[r] = open_any(b_row[r] + block, format, unit % per_block * 16u);
          }
          const uint pairs = with_tail != 0 ? min(8u, (p.k - unit * 16u) / 2u) : 8u;
          for (uint j = 0u; j < pairs; ++j) {
            const uint k = unit * 16u + 2u * j;
            vec2 x[tile_m];
            [[unroll]] for (int t = 0; t < tile_m; ++t) x[t] = vec2(load_packed(a_row[t], a_dtype, k), load_packed(a_row[t], a_dtype, k + 1u));
            [[unroll]] for (int r = 0; r < tile_n; ++r) {
              const vec2 w = pair_of_any(group[r], format, j);
              [[unroll]] for (int t = 0; t < tile_m; ++t) sum[t * tile_n + r] = fma(x[t].y, w.y, fma(x[t].x, w.x, sum[t * tile_n + r]));
            }
          }
          if (with_tail != 0 && unit == units - 1u && p.k % 2u != 0u) {
            [[unroll]] for (int r = 0; r < tile_n; ++r) {
              [[unroll]] for (int t = 0; t < tile_m; ++t)
                sum[t * tile_n + r] = fma(load_packed(a_row[t], a_dtype, p.k - 1u), load_packed(b_row[r], format, p.k - 1u), sum[t * tile_n + r]);
            }
          }
        }
        float total[tile_m * tile_n];
        [[unroll]] for (int i = 0; i < tile_m * tile_n; ++i) total[i] = subgroupAdd(sum[i]);
        [[dont_unroll]] for (uint o = lane; o < uint(tile_m * tile_n); o += lanes) {
          const uint i = row + o / uint(tile_n), j = first + o % uint(tile_n);
          if (i >= p.m || j >= p.n) continue;
          const float v = finished(at, i, j, total[o]);
          store_float(at.y + uint64_t(with_ids != 0 ? two_steps(i, p.y_row, p.c_row) : p.y_row * int64_t(i)) + uint64_t(j) * uint64_t(p.y_step), p.y_dtype, absent ? 0.0 : v);
        }
      }
    }
  }
}
