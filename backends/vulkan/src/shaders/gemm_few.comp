#version 460
// gemm.comp of few rows of a (a batch that decodes): a workgroup has 32 rows of b and all of k, of which its subgroups take turns by units of
// 64; their sums are added at the end, in the order of the subgroups.
//
//   weights   are the left matrices: a lane decodes a row's unit into memory that only its subgroup reads, so that subgroups do not wait for
//             each other; `depth` units a lane are under way
//   a         right matrices as rows_f16.comp wrote them, a lane's components by one load of 16 bytes
//   shared    subgroups * 32 * 144 bytes, then the sums: 36 KiB for 8 subgroups
//
// Constants: 1 format of b; 2 tiles of rows of a; 3, 4, 5 a matrix; 6 units on their way; 7 subgroups.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#pragma use_vulkan_memory_model
#include "memory.glsl"
#include "params_matrices.h"
#include "blocks.glsl"
#include "planes.glsl"
#include "units.glsl"
#include "halves.glsl"
layout(constant_id = 1) const int format = Q8_0;
layout(constant_id = 2) const uint columns = 1;
layout(constant_id = 3) const uint size_m = 16;
layout(constant_id = 4) const uint size_n = 16;
layout(constant_id = 5) const uint size_k = 16;
layout(constant_id = 6) const uint depth = 2;
layout(constant_id = 7) const uint subgroups = 8;
PUSHED(GemmParams)
#include "wide.glsl"
const uint tile_n = 32, row_tiles = tile_n / size_m;
const uint row_units = 9;  // of 16 bytes, between rows in shared memory
const uint threads = gl_WorkGroupSize.x, lanes = threads / subgroups;
const uint rows = (tile_n + lanes - 1) / lanes;  // of b, of a lane
const uint half_units = format == F16 ? 8 : 1;
const uint result_units = tile_n / 4 + 1;  // a row of a after the other
const uint own_units = tile_n * row_units, own_results = columns * size_n * result_units;

shared uvec4 weights[subgroups * (own_units > own_results ? own_units : own_results)];
shared float bounds[subgroups * tile_n], smallest[subgroups * tile_n];
shared uint wide;

void main() {
  const uint t = gl_LocalInvocationID.x, part = gl_SubgroupID, lane = gl_SubgroupInvocationID;
  const uint first = gl_WorkGroupID.x * tile_n, own = part * own_units;
  const uint units = p.k / 64u, row_blocks = p.k / block_elements(format), matrices = p.k / size_k;
  const Planes planes = planes_at(p.b, format, uint64_t(p.n) * uint64_t(row_blocks));

  uint64_t b_row[rows], b_block[rows];
  [[unroll]] for (uint r = 0; r < rows; ++r) {
    const uint row = min(first + lane + r * lanes, p.n - 1u);
    b_row[r] = p.b + uint64_t(row) * uint64_t(format == F16 ? p.k * 2u : row_blocks * block_bytes(format));
    b_block[r] = uint64_t(row) * uint64_t(row_blocks);
  }
  PackedUnit ahead[depth * rows];
  uvec4 ahead_half[depth * rows * half_units];
#define LOAD(slot_, unit_)                                                                                                                  \
  if ((unit_) < units) {                                                                                                                    \
    [[unroll]] for (uint r = 0; r < rows; ++r) {                                                                                            \
      if (format == F16) {                                                                                                                  \
        [[unroll]] for (uint c = 0; c < half_units; ++c)                                                                                    \
          ahead_half[((slot_) * rows + r) * half_units + c] = words_at(b_row[r] + uint64_t((unit_) * 128u + 16u * c));                      \
      } else {                                                                                                                              \
        ahead[(slot_) * rows + r] = load_unit(format, b_row[r], planes, b_block[r], unit_);                                                 \
      }                                                                                                                                     \
    }                                                                                                                                       \
  }
  [[unroll]] for (uint j = 0; j < depth; ++j) LOAD(j, part + j * subgroups)

  if (t == 0u) wide = 0u;
  barrier();
  float scale[rows], back[rows];
  if (format >= Q4_0) {  // each subgroup looks at a share of the blocks, a multiple of 8 where it can
    const uint share = ((row_blocks + subgroups - 1u) / subgroups + 7u) / 8u * 8u;
    [[unroll]] for (uint r = 0; r < rows; ++r) {
      const uint from = min(part * share, row_blocks), to = min(from + share, row_blocks);
      Bounds found = Bounds(0.0, INFINITY);
      if (from < to) found = bounds_of_blocks(format, b_row[r], planes, b_block[r], from, to);
      if (lane + r * lanes < tile_n) {
        bounds[part * tile_n + lane + r * lanes] = found.most;
        smallest[part * tile_n + lane + r * lanes] = found.least;
      }
    }
    barrier();
  }
  [[unroll]] for (uint r = 0; r < rows; ++r) {
    scale[r] = back[r] = 1.0;
    if (format >= Q4_0) {
      Bounds all = Bounds(0.0, INFINITY);
      [[unroll]] for (uint s = 0; s < subgroups; ++s) {
        const uint at = s * tile_n + min(lane + r * lanes, tile_n - 1u);
        all = Bounds(is_nan(bounds[at]) || all.most <= bounds[at] ? bounds[at] : all.most, min(all.least, smallest[at]));
      }
      scale[r] = fitting(all.most, back[r]);
      if (is_wide(all)) atomicOr(wide, 1u);
    }
  }
  barrier();
  if (wide != 0u) {
    multiply_wide(format, planes, 0u, first, p.m, tile_n);
    return;
  }
  if (part == 0u) {
    [[unroll]] for (uint r = 0; r < rows; ++r)
      if (lane + r * lanes < tile_n) bounds[lane + r * lanes] = back[r];
  }

  coopmat<float, gl_ScopeSubgroup, size_m, size_n, gl_MatrixUseAccumulator> sum[row_tiles][columns];
  [[unroll]] for (uint i = 0; i < row_tiles; ++i)
    [[unroll]] for (uint j = 0; j < columns; ++j) sum[i][j] = coopmat<float, gl_ScopeSubgroup, size_m, size_n, gl_MatrixUseAccumulator>(0.0);
  const uint64_t a_lane = p.a + uint64_t(lane * 16u);
  for (uint begin = part; begin < units; begin += subgroups * depth) {
    [[unroll]] for (uint slot = 0; slot < depth; ++slot) {
      const uint unit = begin + slot * subgroups;
      if (unit >= units) continue;
      uvec4 a[64 / size_k][columns];
      [[unroll]] for (uint k = 0; k < 64 / size_k; ++k) {
        const uint element = (format < Q4_0 ? 64u * unit + k * size_k / 16u * 16u : group_begin(format, unit, k * size_k / 16u)) + k * size_k % 16u;
        [[unroll]] for (uint j = 0; j < columns; ++j) a[k][j] = words_at(a_lane + uint64_t((j * matrices + element / size_k) * size_k * size_n * 2u));
      }
      subgroupMemoryBarrierShared();
      subgroupBarrier();  // what lay here has been read
      [[unroll]] for (uint r = 0; r < rows; ++r) {
        const uint to = own + (lane + r * lanes) * row_units;
        if (lane + r * lanes < tile_n) {
          if (format == F16) {
            [[unroll]] for (uint c = 0; c < half_units; ++c) weights[to + c] = ahead_half[(slot * rows + r) * half_units + c];
          } else {
            const Unit w = decode_unit(format, ahead[slot * rows + r], unit);
            [[unroll]] for (uint g = 0; g < 4u; ++g) {
              const float f = w.f[g] * scale[r], m = w.m[g] * scale[r];
              weights[to + 2u * g] = uvec4(halves_of(format, w.code[g].x, f, m), halves_of(format, w.code[g].y, f, m));
              weights[to + 2u * g + 1u] = uvec4(halves_of(format, w.code[g].z, f, m), halves_of(format, w.code[g].w, f, m));
            }
          }
        }
      }
      LOAD(slot, unit + subgroups * depth)
      subgroupMemoryBarrierShared();
      subgroupBarrier();
      [[unroll]] for (uint k = 0; k < 64 / size_k; ++k) {
        coopmat<float16_t, gl_ScopeSubgroup, size_k, size_n, gl_MatrixUseB> right[columns];
        [[unroll]] for (uint j = 0; j < columns; ++j) {
          [[unroll]] for (uint w = 0; w < 4u; ++w) {
            const f16vec2 h = unpackFloat2x16(a[k][j][w]);
            right[j][2 * w] = h.x;
            right[j][2 * w + 1] = h.y;
          }
        }
        [[unroll]] for (uint i = 0; i < row_tiles; ++i) {
          coopmat<float16_t, gl_ScopeSubgroup, size_m, size_k, gl_MatrixUseA> left;
          coopMatLoad(left, weights, own + i * size_m * row_units + k * (size_k / 8u), row_units, gl_CooperativeMatrixLayoutRowMajor);
          [[unroll]] for (uint j = 0; j < columns; ++j) sum[i][j] = coopMatMulAdd(left, right[j], sum[i][j]);
        }
      }
    }
  }
  barrier();
  [[unroll]] for (uint i = 0; i < row_tiles; ++i)
    [[unroll]] for (uint j = 0; j < columns; ++j)
      coopMatStore(sum[i][j], weights, part * own_results + j * size_n * result_units + i * (size_m / 4u), result_units, gl_CooperativeMatrixLayoutColumnMajor);
  barrier();
  for (uint e = t; e < columns * size_n * (tile_n / 4u); e += threads) {
    const uint row = e / (tile_n / 4u), c = e % (tile_n / 4u) * 4u, column = first + c;
    if (row >= p.m || column >= p.n) continue;
    vec4 v = vec4(0.0);
    for (uint s = 0; s < subgroups; ++s) v += uintBitsToFloat(weights[s * own_results + row * result_units + c / 4u]);
    const float row_scale = Float(p.row_scale + uint64_t(row) * 4ul).v;
    [[unroll]] for (uint l = 0; l < 4u; ++l) v[l] = v[l] * bounds[c + l] * row_scale;
    finish_four(row, column, v);
  }
}
