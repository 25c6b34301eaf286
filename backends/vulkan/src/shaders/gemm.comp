#version 460
// y = a b^T + bias + c by cooperative matrices: f16 rows of a (rows_f16.comp), and weights that become f16 in shared memory, f32 sums.
//
//   workgroup  tile_m x tile_n of y, in steps of 64 along k; a subgroup has part_m x part_n of it, its sums in registers
//   shared     (tile_m + tile_n) * 144 bytes: rows of 64 halves, 16 bytes between them so that eight rows share no bank
//   reuse      of 128 x 128: 2 * 128 * 128 * 64 FLOP a step for 16 KiB of a and, of Q4_K, 4.5 KiB of weights
//
// Each invocation loads the same row of b in every step (of quantised weights), a unit of 64 weights; the next one is on its way while matrices are multiplied.
// One buffer, not two: half as large ones were slower (an H100: 241 against 264 to 290 TFLOP/s of plain f16).
//
// Weights that weights_f16.comp made f16 take the way of the rows of a, as those do that are f16 in the file.
//
// Constants: 1 format of b, plus 256 where its halves are made; 2, 3: the tile; 4, 5: a subgroup's part; 6, 7, 8: a matrix.
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
layout(constant_id = 1) const int kind = Q8_0;
layout(constant_id = 2) const uint tile_m = 128;
layout(constant_id = 3) const uint tile_n = 128;
layout(constant_id = 4) const uint part_m = 64;
layout(constant_id = 5) const uint part_n = 64;
layout(constant_id = 6) const uint size_m = 16;
layout(constant_id = 7) const uint size_n = 16;
layout(constant_id = 8) const uint size_k = 16;
PUSHED(GemmParams)
#include "wide.glsl"
const int format = kind & 255;
const bool made = kind > 255, plain = made || format == F16;
const uint row_units = 9;  // of 16 bytes, between rows in shared memory
const uint threads = gl_WorkGroupSize.x;
const uint a_loads = tile_m * 8 / threads, b_loads = plain ? tile_n * 8 / threads : 1, b_rows = (tile_n + threads - 1) / threads;
const uint across = part_m / size_m, along = part_n / size_n;
const uint result_units = part_n / 4 + 1;

shared uvec4 tiles[(tile_m + tile_n) * row_units];
shared float column_scale[tile_n];
shared uint wide;

void main() {
  const uint t = gl_LocalInvocationID.x, part = gl_SubgroupID;
  const uint part_row = part / (tile_n / part_n) * part_m, part_column = part % (tile_n / part_n) * part_n;
  const uint first_row = gl_WorkGroupID.x * tile_m, first_column = gl_WorkGroupID.y * tile_n;
  const uint units = p.k / 64u, row_blocks = p.k / block_elements(format);
  const Planes planes = planes_at(p.b, format, uint64_t(p.n) * uint64_t(row_blocks));
  const uint tile_b = tile_m * row_units;

  if (t == 0u) wide = 0u;
  barrier();
  uint64_t b_row[b_rows];
  uint64_t b_block[b_rows];
  float scale[b_rows];
  [[unroll]] for (uint r = 0; r < b_rows; ++r) {
    const uint row = min(first_column + t + r * threads, p.n - 1u);
    b_row[r] = p.b + uint64_t(row) * uint64_t(row_blocks * block_bytes(format));
    b_block[r] = uint64_t(row) * uint64_t(row_blocks);
    scale[r] = 1.0;
    float back = 1.0;
    if (made) {
      back = Float(p.halves + uint64_t(p.n) * uint64_t(p.k) * 2ul + uint64_t(row) * 4ul).v;
      if (back == 0.0) atomicOr(wide, 1u);
    } else if (format >= Q4_0) {
      const Bounds bounds = bounds_of_blocks(format, b_row[r], planes, b_block[r], 0u, row_blocks);
      scale[r] = fitting(bounds.most, back);
      if (is_wide(bounds)) atomicOr(wide, 1u);
    }
    if (t + r * threads < tile_n) column_scale[t + r * threads] = back;
  }

  barrier();
  if (wide != 0u) {
    multiply_wide(format, planes, first_row, first_column, tile_m, tile_n);
    return;
  }
  coopmat<float, gl_ScopeSubgroup, size_m, size_n, gl_MatrixUseAccumulator> sum[across][along];
  [[unroll]] for (uint i = 0; i < across; ++i)
    [[unroll]] for (uint j = 0; j < along; ++j) sum[i][j] = coopmat<float, gl_ScopeSubgroup, size_m, size_n, gl_MatrixUseAccumulator>(0.0);

  const uint chunk = t % 8u, a_first = t / 8u;  // of a row's 8 times 16 bytes; rows go in steps of threads / 8
  uint64_t a_row[a_loads];
  [[unroll]] for (uint i = 0; i < a_loads; ++i)
    a_row[i] = p.a + uint64_t(min(first_row + a_first + i * (threads / 8u), p.m - 1u)) * uint64_t(p.k) * 2ul + uint64_t((chunk & 1u) * 16u);

  const uint64_t b_at = made ? p.halves : p.b;
  uint64_t half_row[b_loads];  // weights of f16 are loaded as rows of a are
  [[unroll]] for (uint i = 0; i < b_loads; ++i)
    half_row[i] = b_at + uint64_t(min(first_column + a_first + i * (threads / 8u), p.n - 1u)) * uint64_t(p.k) * 2ul + uint64_t(chunk * 16u);

  uvec4 a[a_loads];
  PackedUnit b[b_rows];
  uvec4 b_half[b_loads];
#define LOAD(unit_)                                                                                                          \
  {                                                                                                                          \
    const uint64_t at_ = uint64_t((plain ? 64u * (unit_) + 16u * (chunk / 2u) : group_begin(format, unit_, chunk / 2u)) * 2u); \
    [[unroll]] for (uint i = 0; i < a_loads; ++i) a[i] = words_at(a_row[i] + at_);                                           \
    if (plain) {                                                                                                     \
      [[unroll]] for (uint i = 0; i < b_loads; ++i) b_half[i] = words_at(half_row[i] + uint64_t((unit_) * 128u));            \
    } else {                                                                                                                 \
      [[unroll]] for (uint r = 0; r < b_rows; ++r) b[r] = load_unit(format, b_row[r], planes, b_block[r], unit_);            \
    }                                                                                                                        \
  }
  LOAD(0u)
  for (uint unit = 0u; unit < units; ++unit) {
    [[unroll]] for (uint i = 0; i < a_loads; ++i) tiles[(a_first + i * (threads / 8u)) * row_units + chunk] = a[i];
    if (plain) {
      [[unroll]] for (uint i = 0; i < b_loads; ++i) tiles[tile_b + (a_first + i * (threads / 8u)) * row_units + chunk] = b_half[i];
    }
    [[unroll]] for (uint r = 0; r < b_rows; ++r) {
      const uint row = t + r * threads;
      if (row < tile_n) {
        if (!plain) {
          const Unit w = decode_unit(format, b[r], unit);
          [[unroll]] for (uint g = 0; g < 4u; ++g) {
            const float f = w.f[g] * scale[r], m = w.m[g] * scale[r];
            const uvec2 x = halves_of(format, w.code[g].x, f, m), y = halves_of(format, w.code[g].y, f, m);
            const uvec2 z = halves_of(format, w.code[g].z, f, m), u = halves_of(format, w.code[g].w, f, m);
            tiles[tile_b + row * row_units + 2u * g] = uvec4(x, y);
            tiles[tile_b + row * row_units + 2u * g + 1u] = uvec4(z, u);
          }
        }
      }
    }
    barrier();
    if (unit + 1u < units) LOAD(unit + 1u)
    [[unroll]] for (uint k = 0; k < 64u; k += size_k) {
      coopmat<float16_t, gl_ScopeSubgroup, size_m, size_k, gl_MatrixUseA> left[across];
      [[unroll]] for (uint i = 0; i < across; ++i)
        coopMatLoad(left[i], tiles, (part_row + i * size_m) * row_units + k / 8u, row_units, gl_CooperativeMatrixLayoutRowMajor);
      [[unroll]] for (uint j = 0; j < along; ++j) {
        coopmat<float16_t, gl_ScopeSubgroup, size_k, size_n, gl_MatrixUseB> right;
        coopMatLoad(right, tiles, tile_b + (part_column + j * size_n) * row_units + k / 8u, row_units, gl_CooperativeMatrixLayoutColumnMajor);
        [[unroll]] for (uint i = 0; i < across; ++i) sum[i][j] = coopMatMulAdd(left[i], right, sum[i][j]);
      }
    }
    barrier();
  }

  // Through shared memory, since which invocation holds which sum is the driver's to know.
  const uint lane = gl_SubgroupInvocationID, lanes = gl_SubgroupSize;
  const uint result = part * size_m * result_units, fours = part_n / 4;
  [[unroll]] for (uint i = 0; i < across; ++i) {
    [[unroll]] for (uint j = 0; j < along; ++j)
      coopMatStore(sum[i][j], tiles, result + j * (size_n / 4), result_units, gl_CooperativeMatrixLayoutRowMajor);
    barrier();
    for (uint e = lane; e < size_m * fours; e += lanes) {
      const uint in_part = e / fours, c = e % fours * 4u, row = first_row + part_row + i * size_m + in_part, column = first_column + part_column + c;
      if (row >= p.m || column >= p.n) continue;
      const float row_scale = Float(p.row_scale + uint64_t(row) * 4ul).v;
      vec4 v = uintBitsToFloat(tiles[result + in_part * result_units + c / 4u]);
      [[unroll]] for (uint l = 0; l < 4u; ++l) v[l] = v[l] * column_scale[part_column + c + l] * row_scale;
      finish_four(row, column, v);
    }
    barrier();
  }
}
