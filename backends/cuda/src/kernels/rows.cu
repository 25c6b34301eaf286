// Rows by index: get_rows decodes any format, set_rows stores floats and blocks; get_rows_backward and index_add add in f32. take: elements
// of rows by index.
//
// get_rows: a block an index. The others go by rows of the table where an index may come twice: of set_rows the last wins, the others add
// in the order of the indices.
#include "blocks.cuh"
#include "encode.cuh"
#include "index.hpp"
#include "strided.cuh"

DEV i64 index_at(const IndexParams& p, i64 t) { return load_integer(at<const char>(p.index.data) + t * p.index.strides[0], p.index.dtype); }
DEV char* row_of(const Operand& o, i64 row) { return at<char>(o.data) + row * o.strides[0]; }

KERNEL(256) get_rows(const __grid_constant__ IndexParams p) {
  wait_for_inputs();
  const i64 t = blockIdx.x, r = index_at(p, t);
  char* y = row_of(p.x, t);
  const bool inside = r >= 0 && r < p.rows;
  if (!inside && threadIdx.x == 0) raise_fault(p.faults);
  if (p.table.dtype == I32) {
    for (i64 i = threadIdx.x; i < p.h; i += blockDim.x)
      *reinterpret_cast<int*>(y + i * p.x.step) = inside ? *reinterpret_cast<const int*>(row_of(p.table, r) + i * p.table.step) : 0;
  } else if (p.pieces.stride[0] != 0) {
    Blocks row = p.pieces;
    const i64 first = p.plane_rows && inside ? r * (p.h / 16) : 0;
    if (!p.plane_rows && inside)
      for (int piece = 0; piece < 4; ++piece) row.plane[piece] += (Address)row_of(p.table, r);
    for (i64 s = threadIdx.x; s < p.h / 16; s += blockDim.x) {
      float v[16];
      if (inside) decode16(row, first + s, v);
#pragma unroll
      for (int i = 0; i < 16; ++i) store_at(p.x, y, s * 16 + i, inside ? v[i] : 0.0f);
    }
  } else {
    for (i64 i = threadIdx.x; i < p.h; i += blockDim.x) store_at(p.x, y, i, inside ? load_at(p.table, row_of(p.table, r), i) : 0.0f);
  }
}

/// `table` has the rows, `rows` of h elements; of each, x gets `count` by index. A thread an element.
KERNEL(256) take(const __grid_constant__ IndexParams p) {
  wait_for_inputs();
  FOR_EACH(i, p.rows * p.count) {
    const i64 row = i / p.count, j = i % p.count, from = index_at(p, j);
    const bool inside = from >= 0 && from < p.h;
    if (!inside) raise_fault(p.faults);
    store_at(p.x, row_of(p.x, row), j, inside ? load_at(p.table, row_of(p.table, row), from) : 0.0f);
  }
}

/// Whether a live index from `begin` on, before `end`, names row r: asked by a whole block.
DEV bool is_among(const IndexParams& p, i64 begin, i64 end, i64 r) {
  bool found = false;
  for (i64 t = begin + threadIdx.x; t < end; t += blockDim.x) found = found || (index_at(p, t) == r && is_live(p.live, t));
  return __syncthreads_or(found);
}
DEV bool in_range(const IndexParams& p, i64 r) {
  if (r >= 0 && r < p.rows) return true;
  if ((r != -1 || !p.skips) && threadIdx.x == 0) raise_fault(p.faults);
  return false;
}

KERNEL(256) set_rows(const __grid_constant__ IndexParams p) {
  wait_for_inputs();
  const i64 t = blockIdx.x, r = index_at(p, t);
  if (!is_live(p.live, t) || !in_range(p, r) || is_among(p, t + 1, p.count, r)) return;
  const char* x = row_of(p.x, t);
  char* to = row_of(p.table, r);
  if (p.pieces.stride[0] != 0) {
    for (i64 block = threadIdx.x >> 5; block < p.h / 32; block += blockDim.x >> 5)
      encode_block32(load_at(p.x, x, block * 32 + (threadIdx.x & 31)), p.table.dtype, to + block * p.pieces.stride[0]);
    return;
  }
  for (i64 i = threadIdx.x; i < p.h; i += blockDim.x) store_at(p.table, to, i, load_at(p.x, x, i));
}

/// Zeros, for a gradient that nothing is added to before.
KERNEL(256) clear_rows(const __grid_constant__ IndexParams p) {
  wait_for_inputs();
  if (p.live.count == 1 && !is_live(p.live, 0)) return;
  FOR_EACH(i, p.rows * p.h) store_at(p.table, row_of(p.table, i / p.h), i % p.h, 0.0f);
}

/// One block an index; that of the first that names a row adds all of them, in their order.
KERNEL(256) add_rows(const __grid_constant__ IndexParams p) {
  wait_for_inputs();
  const i64 t = blockIdx.x, r = index_at(p, t);
  if (!is_live(p.live, t) || !in_range(p, r) || is_among(p, 0, t, r)) return;
  enum { WARPS = 8, COLUMNS = 16 };  // of a thread at a time
  __shared__ u32 named[WARPS];       // which of 256 indices name the row
  char* to = row_of(p.table, r);
  for (i64 first = threadIdx.x; first - threadIdx.x < p.h; first += 256 * COLUMNS) {
    float sums[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) sums[c] = p.accumulate && first + c * 256 < p.h ? load_at(p.table, to, first + c * 256) : 0.0f;
    for (i64 some = t; some < p.count; some += 256) {
      const i64 u = some + threadIdx.x;
      const u32 among = __ballot_sync(~0u, u < p.count && index_at(p, u) == r && is_live(p.live, u));
      if (threadIdx.x % 32 == 0) named[threadIdx.x / 32] = among;
      __syncthreads();
      for (int w = 0; w < WARPS; ++w)
        for (u32 rest = named[w]; rest != 0; rest &= rest - 1) {
          const char* x = row_of(p.x, some + w * 32 + __ffs(rest) - 1);
#pragma unroll
          for (int c = 0; c < COLUMNS; ++c)
            if (first + c * 256 < p.h) sums[c] += load_at(p.x, x, first + c * 256);
        }
      __syncthreads();
    }
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c)
      if (first + c * 256 < p.h) store_at(p.table, to, first + c * 256, sums[c]);
  }
}
