// Products of operands that lie anywhere: 64 x 64 outputs a block of 256 threads, in steps of 16 along k, sums in f32, 4 x 4 a thread.
//
// An operand is 64 rows, each a pointer or null, and how far element k of a row lies from its start. Rows of a block format are decoded,
// sixteen elements a thread.
#pragma once
#include "blocks.cuh"
#include "tile_product.hpp"

enum { TILE_ROWS = product_tile, TILE_STEP = 16 };

struct ProductTile {
  float a[TILE_STEP][TILE_ROWS + 4], b[TILE_STEP][TILE_ROWS + 4];
  const char *a_rows[TILE_ROWS], *b_rows[TILE_ROWS];
};

/// A multiple of elements.
struct EvenSteps {
  i64 step;
  DEV i64 operator()(i64 k) const { return k * step; }
};

/// `rows_first`: neighbouring rows lie nearer than neighbouring elements of a row.
template <class Steps>
DEV void fill_floats(float (*tile)[TILE_ROWS + 4], const char* const* rows, int dtype, bool rows_first, i64 k0, i64 k, const Steps& steps) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int e = threadIdx.x + 256 * j, r = rows_first ? e % TILE_ROWS : e / TILE_STEP, i = rows_first ? e / TILE_ROWS : e % TILE_STEP;
    float v = 0.0f;
    if (rows[r] && k0 + i < k) v = load_float(rows[r] + steps(k0 + i), dtype, 0);
    tile[i][r] = v;
  }
}
/// `pieces`: where a block's parts lie behind its row's start. Or, with `first` at least 0, whole planes, whose row of the tile begins at
/// that sixteen and has `sixteens`.
DEV void fill_blocks(float (*tile)[TILE_ROWS + 4], const char* const* rows, const Blocks& pieces, i64 k0, i64 first = -1, i64 sixteens = 0) {
  if (threadIdx.x >= TILE_ROWS) return;
  float v[16] = {};
  const char* row = rows[threadIdx.x];
  if (row && first >= 0) {
    decode16(pieces, first + threadIdx.x * sixteens + k0 / 16, v);
  } else if (row) {
    Blocks blocks = pieces;
#pragma unroll
    for (int piece = 0; piece < 4; ++piece) blocks.plane[piece] += (Address)row;
    decode16(blocks, k0 / 16, v);
  }
#pragma unroll
  for (int i = 0; i < 16; ++i) tile[i][threadIdx.x] = v[i];
}

/// Blocks that lie along the tile's rows: row k of them starts `step` bytes behind the last at `start`, or lies in whole planes. n is whole blocks.
DEV void fill_turned_blocks(float (*tile)[TILE_ROWS + 4], const char* start, i64 step, const Blocks& pieces, bool planes, i64 k0, i64 k,
                            i64 n0, i64 n) {
  if (threadIdx.x >= TILE_STEP * TILE_ROWS / 16) return;
  const int i = threadIdx.x / (TILE_ROWS / 16), column = threadIdx.x % (TILE_ROWS / 16) * 16;
  float v[16] = {};
  if (k0 + i < k && n0 + column < n) {
    Blocks blocks = pieces;
#pragma unroll
    for (int piece = 0; piece < 4; ++piece)
      if (!planes) blocks.plane[piece] += (Address)(start + (k0 + i) * step);
    decode16(blocks, (n0 + column + (planes ? (k0 + i) * n : 0)) / 16, v);
  }
#pragma unroll
  for (int e = 0; e < 16; ++e) tile[i][column + e] = v[e];
}

/// sums += the tile's products for all of k; `fill(k0)` fills s.a and s.b.
template <class Fill> DEV void multiply_tiles(float (*sums)[4], const ProductTile& s, i64 k, const Fill& fill) {
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  for (i64 k0 = 0; k0 < k; k0 += TILE_STEP) {
    __syncthreads();
    fill(k0);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TILE_STEP; ++i) {
      float a[4], b[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        a[j] = s.a[i][ty * 4 + j];
        b[j] = s.b[i][tx * 4 + j];
      }
#pragma unroll
      for (int r = 0; r < 4; ++r)
#pragma unroll
        for (int c = 0; c < 4; ++c) sums[r][c] = fmaf(a[r], b[c], sums[r][c]);
    }
  }
}
/// put(row of the tile, column of the tile, sum) for each of this thread's outputs.
template <class Put> DEV void each_output(const float (*sums)[4], const Put& put) {
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
#pragma unroll
  for (int r = 0; r < 4; ++r)
#pragma unroll
    for (int c = 0; c < 4; ++c) put(ty * 4 + r, tx * 4 + c, sums[r][c]);
}
