#version 460
// gemm.comp of few rows of a (a batch that decodes): a workgroup has 32 rows of b and all of k, of which each of its four subgroups takes every
// fourth unit of 64; their sums are added at the end, in the order of the subgroups.
//
//   loads      `depth` units a lane are under way: of Q4_K 4 * 32 * 4 * 36 bytes = 18 KiB a workgroup; and the rows of a of the next four
//              units, by 16 bytes (matrices read from memory where they lie took ten times as long)
//   shared     4 * (32 + tile_m) * 144 bytes: 27 KiB for 16 rows of a, 37 for 32
//
// Constants: 1 format of b; 2 rows of a; 3, 4, 5 a matrix; 6 units on their way.
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
layout(constant_id = 2) const uint tile_m = 16;
layout(constant_id = 3) const uint size_m = 16;
layout(constant_id = 4) const uint size_n = 16;
layout(constant_id = 5) const uint size_k = 16;
layout(constant_id = 6) const uint depth = 4;
PUSHED(GemmParams)
#include "finish.glsl"
const uint subgroups = 4, tile_n = 32;
const uint row_units = 9;
const uint threads = gl_WorkGroupSize.x, lanes = threads / subgroups;
const uint rows = (tile_n + lanes - 1) / lanes;  // of b, of a lane
const uint across = tile_m / size_m, along = tile_n / size_n;
const uint half_units = format == F16 ? 8 : 1;

const uint a_loads = (subgroups * tile_m * 8 + threads - 1) / threads;

shared uvec4 weights[subgroups * tile_n * row_units], rows_of_a[subgroups * tile_m * row_units];
shared float bounds[subgroups * tile_n], smallest[subgroups * tile_n];
shared uint wide;

void main() {
  const uint t = gl_LocalInvocationID.x, part = gl_SubgroupID, lane = gl_SubgroupInvocationID;
  const uint first = gl_WorkGroupID.x * tile_n, own = part * tile_n * row_units;
  const uint units = p.k / 64u, row_blocks = p.k / block_elements(format);
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

  coopmat<float, gl_ScopeSubgroup, size_m, size_n, gl_MatrixUseAccumulator> sum[across][along];
  [[unroll]] for (uint i = 0; i < across; ++i)
    [[unroll]] for (uint j = 0; j < along; ++j) sum[i][j] = coopmat<float, gl_ScopeSubgroup, size_m, size_n, gl_MatrixUseAccumulator>(0.0);
  uvec4 a[a_loads];
#define LOAD_ROWS(base_)                                                                                                          \
  [[unroll]] for (uint i = 0; i < a_loads; ++i) {                                                                                 \
    const uint at_ = t + i * threads, unit_ = min((base_) + at_ / (tile_m * 8u), units - 1u), chunk_ = at_ % 8u;                   \
    const uint element_ = (format < Q4_0 ? 64u * unit_ + 16u * (chunk_ / 2u) : group_begin(format, unit_, chunk_ / 2u)) + 8u * (chunk_ & 1u); \
    a[i] = words_at(p.a + (uint64_t(min(at_ / 8u % tile_m, p.m - 1u)) * uint64_t(p.k) + uint64_t(element_)) * 2ul);                \
  }
  LOAD_ROWS(0u)
  for (uint begin = 0u; begin < units; begin += subgroups * depth) {
    [[unroll]] for (uint slot = 0; slot < depth; ++slot) {
      const uint base = begin + slot * subgroups, unit = base + part;
      if (base >= units) continue;
      [[unroll]] for (uint i = 0; i < a_loads; ++i) {
        const uint at = t + i * threads;
        if (at < subgroups * tile_m * 8u) rows_of_a[at / 8u * row_units + at % 8u] = a[i];
      }
      if (unit < units) {
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
      }
      barrier();
      LOAD_ROWS(base + subgroups)
      LOAD(slot, unit + subgroups * depth)
      if (unit < units) {
        [[unroll]] for (uint k = 0; k < 64u; k += size_k) {
          coopmat<float16_t, gl_ScopeSubgroup, size_m, size_k, gl_MatrixUseA> left[across];
          [[unroll]] for (uint i = 0; i < across; ++i)
            coopMatLoad(left[i], rows_of_a, (part * tile_m + i * size_m) * row_units + k / 8u, row_units, gl_CooperativeMatrixLayoutRowMajor);
          [[unroll]] for (uint j = 0; j < along; ++j) {
            coopmat<float16_t, gl_ScopeSubgroup, size_k, size_n, gl_MatrixUseB> right;
            coopMatLoad(right, weights, own + j * size_n * row_units + k / 8u, row_units, gl_CooperativeMatrixLayoutColumnMajor);
            [[unroll]] for (uint i = 0; i < across; ++i) sum[i][j] = coopMatMulAdd(left[i], right, sum[i][j]);
          }
        }
      }
      barrier();
    }
  }
  [[unroll]] for (uint i = 0; i < across; ++i)
    [[unroll]] for (uint j = 0; j < along; ++j)
      coopMatStore(sum[i][j], weights, (part * tile_m + i * size_m) * row_units + j * (size_n / 4u), row_units, gl_CooperativeMatrixLayoutRowMajor);
  barrier();
  for (uint e = t; e < tile_m * (tile_n / 4u); e += threads) {
    const uint row = e / (tile_n / 4u), c = e % (tile_n / 4u) * 4u, column = first + c;
    if (row >= p.m || column >= p.n) continue;
    vec4 v = vec4(0.0);
    for (uint s = 0; s < subgroups; ++s) v += uintBitsToFloat(weights[(s * tile_m + row) * row_units + c / 4u]);
    const float row_scale = Float(p.row_scale + uint64_t(row) * 4ul).v;
    [[unroll]] for (uint l = 0; l < 4u; ++l) v[l] = v[l] * bounds[c + l] * row_scale;
    finish_four(row, column, v);
  }
}
