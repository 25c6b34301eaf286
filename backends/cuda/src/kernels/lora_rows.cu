// Adapters behind products of many rows, on the matrix units in TF32: of all products that share an operand at a time.
//
//   adapters_down  low = scale A x, from the 16-bit operand of the products. A block has 16 rows and 16 ranks, each of its warps a share of k
//   adapters_up    y += B low, in place. A warp has 16 rows and 64 outputs
//
// Rows of a tile that have one adapter take it together; each of its adapters has a turn. In a step of k a lane has neighbouring elements of both
// operands: the sum does not care which elements the matrix units take for which.
#include "lora.hpp"
#include "adapters.cuh"
#include "matrix.cuh"
#include "operand.cuh"

enum { TILE = lora_tile_rows, TURN = lora_tile_ranks, UP_TILES = lora_up_columns / 64 };  // UP_TILES: of 8 outputs, of each of 8 warps

/// The rows of a tile that have the adapter of the first of `left`, which it takes out of them. Every warp.
DEV u32 rows_of_one(int own_slot, u32& left, int& slot) {
  slot = __shfl_sync(~0u, own_slot, __ffs(left) - 1);
  const u32 same = __ballot_sync(~0u, own_slot == slot) & left;
  left &= ~same;
  return same;
}
/// What `use` does with each adapter of a tile and the rows that have it.
template <class Use> DEV void each_adapter(const AdaptedRows& p, i64 first, int rows, Use use) {
  const AdapterPart& part = p.part[blockIdx.z];
  if (!part.table) return;
  const int lane = threadIdx.x & 31;
  const int own = *reinterpret_cast<const int*>(at<const char>(part.slot) + (first + min(lane, rows - 1)) * p.slot_step[blockIdx.z]);
  for (u32 left = (1u << rows) - 1; left;) {
    int slot;
    const u32 same = rows_of_one(own, left, slot);
    Adapter adapter;
    if (const bool stray = find_adapter(part, slot, (int)p.k, adapter); stray && blockIdx.x == 0 && threadIdx.x == 0) raise_fault(p.faults);
    if (adapter.rank > 0) use(adapter, same);
  }
}

/// Elements i to i + 7 of a row of the operand.
DEV uint4 eight_of_row(const AdaptedRows& p, i64 row, int i) {
  if (!p.columns) return *reinterpret_cast<const uint4*>(at<const u16>(p.x) + row * p.k + i);
  const char* block = at<const char>(p.x) + operand_row(row, p.columns, p.k / 256) + (i64)(i >> 8) * p.columns * OPERAND_PITCH;
  return *reinterpret_cast<const uint4*>(block + swizzled_chunk((i & 255) >> 3));
}
/// Element j of eight, of f16 or bf16, both of which TF32 holds.
DEV u32 tf32_of(const uint4& v, int j, bool half) {
  const u32 pair = word_of(v, j >> 1);
  const u16 bits = (u16)(j & 1 ? pair >> 16 : pair);
  return __float_as_uint(half ? from_half(bits) : from_bf16(bits));
}

KERNEL(256) adapters_down(const __grid_constant__ AdaptedRows p) {
  __shared__ float sums[8][TILE][TURN];
  wait_for_inputs();
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3, k = (int)p.k;
  const AdapterPart& part = p.part[blockIdx.z];
  const i64 first = (i64)blockIdx.y * TILE;
  const int rows = (int)min((i64)TILE, p.t - first);
  const i64 row_a = first + min(g, rows - 1), row_b = first + min(g + 8, rows - 1);
  each_adapter(p, first, rows, [&](const Adapter& adapter, u32 same) {
    for (i64 r = (i64)blockIdx.x * TURN; r < adapter.rank; r += (i64)gridDim.x * TURN) {
      float c[2][4] = {};
      const i64 of_a[2] = {adapter.a + min(r + g, adapter.rank - 1) * p.k, adapter.a + min(r + 8 + g, adapter.rank - 1) * p.k};
#pragma unroll 4
      for (int i = warp * 32 + t * 8; i - t * 8 < k; i += 256) {
        const bool inside = i < k;  // of the last turn perhaps not every lane
        const uint4 zero = make_uint4(0, 0, 0, 0), xa = inside ? eight_of_row(p, row_a, i) : zero, xb = inside ? eight_of_row(p, row_b, i) : zero;
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          const float4 none = make_float4(0.0f, 0.0f, 0.0f, 0.0f), u = inside ? four_of_pool(part, of_a[n] + i) : none,
                       v = inside ? four_of_pool(part, of_a[n] + i + 4) : none;
          const float w[8] = {u.x, u.y, u.z, u.w, v.x, v.y, v.z, v.w};
#pragma unroll
          for (int j = 0; j < 8; j += 2) {
            const u32 x[4] = {tf32_of(xa, j, p.half), tf32_of(xb, j, p.half), tf32_of(xa, j + 1, p.half), tf32_of(xb, j + 1, p.half)};
            multiply_tf32(c[n], x, to_tf32(w[j]), to_tf32(w[j + 1]));
          }
        }
      }
      __syncthreads();  // of the turn before
#pragma unroll
      for (int n = 0; n < 2; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[warp][g + e / 2 * 8][n * 8 + t * 2 + e % 2] = c[n][e];
      __syncthreads();
      const int row = threadIdx.x / TURN, rank = threadIdx.x % TURN;
      if (!(same >> row & 1) || r + rank >= adapter.rank) continue;
      float whole = 0.0f;
#pragma unroll
      for (int w = 0; w < 8; ++w) whole += sums[w][row][rank];
      at<float>(p.low)[(blockIdx.z * p.t + first + row) * p.pitch + r + rank] = adapter.scale * p.x_scale * whole;
    }
  });
}

/// Four numbers of a line from element i on, zeros from `end` on.
template <class Number> DEV void four_below(i64 i, i64 end, u32 (&v)[4], Number number) {
#pragma unroll
  for (int e = 0; e < 4; ++e) v[e] = i + e < end ? to_tf32(number(i + e)) : 0;
}

KERNEL(256) adapters_up(const __grid_constant__ AdaptedRows p) {
  wait_for_inputs();
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  const AdapterPart& part = p.part[blockIdx.z];
  const i64 first = (i64)blockIdx.y * TILE, column = (i64)blockIdx.x * lora_up_columns + warp * UP_TILES * 8;
  const int rows = (int)min((i64)TILE, p.t - first);
  if (column >= part.rows) return;
  each_adapter(p, first, rows, [&](const Adapter& adapter, u32 same) {
    float c[UP_TILES][4] = {};
    for (i64 r = 0; r < adapter.rank; r += 16) {
      u32 a[2][4];  // of rows g and g + 8
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float* low = at<const float>(p.low) + (blockIdx.z * p.t + first + min(g + 8 * i, rows - 1)) * p.pitch;
        four_below(r + 4 * t, same >> min(g + 8 * i, rows - 1) & 1 ? adapter.rank : 0, a[i], [&](i64 at_rank) { return low[at_rank]; });
      }
      const u32 x[2][4] = {{a[0][0], a[1][0], a[0][1], a[1][1]}, {a[0][2], a[1][2], a[0][3], a[1][3]}};
#pragma unroll
      for (int n = 0; n < UP_TILES; ++n) {
        const i64 output = column + n * 8 + g, line = adapter.b + output * adapter.rank;
        u32 b[4];
        four_below(r + 4 * t, output < part.rows ? adapter.rank : 0, b,
                   [&](i64 at_rank) { return load_float(at<const void>(part.pool), part.pool_dtype, line + at_rank); });
        multiply_tf32(c[n], x[0], b[0], b[1]);
        multiply_tf32(c[n], x[1], b[2], b[3]);
      }
    }
#pragma unroll
    for (int n = 0; n < UP_TILES; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int row = g + 8 * i;
        const i64 output = column + n * 8 + t * 2, y = (first + row) * p.y_row + p.y_first[blockIdx.z] + output;
        if (!(same >> row & 1) || output >= part.rows) continue;
        const float u = c[n][2 * i] * p.y_scale, v = c[n][2 * i + 1] * p.y_scale;
        if (p.y16) {
          u32* pair = reinterpret_cast<u32*>(at<u16>(p.y) + y);
          *pair = pack_half(cut_to_half(from_half((u16)*pair) + u), cut_to_half(from_half((u16)(*pair >> 16)) + v));
        } else {
          float* pair = at<float>(p.y) + y;
          pair[0] += u, pair[1] += v;
        }
      }
  });
}
