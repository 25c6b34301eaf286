// Rows by index: get_rows decodes any format, set_rows stores floats.
//
//   get_rows  one block a row, 256 threads, 16 elements a thread where rows are whole sixteens, else one
#include "blocks.cuh"

KERNEL(256) get_rows(const __grid_constant__ GetRowsParams p) {
  wait_for_inputs();
  const i64 t = blockIdx.x;
  const i64 r = load_integer(at<const char>(p.index.data) + t * p.index.strides[0], p.index.dtype);
  char* y = at<char>(p.y) + t * p.y_stride;
  const bool inside = r >= 0 && r < p.rows;
  if (!inside && threadIdx.x == 0) raise_fault(p.faults);
  if (p.h % 16 == 0) {
    for (i64 s = threadIdx.x; s < p.h / 16; s += blockDim.x) {
      float v[16];
      if (inside) decode16(p.table, r * (p.h / 16) + s, v);
#pragma unroll
      for (int i = 0; i < 16; ++i) store_float(y, p.y_dtype, s * 16 + i, inside ? v[i] : 0.0f);
    }
  } else {
    for (i64 i = threadIdx.x; i < p.h; i += blockDim.x)
      store_float(y, p.y_dtype, i, inside ? load_float(at<const char>(p.table.plane[0]), p.table.dtype, r * p.h + i) : 0.0f);
  }
}

/// One block a row of the table, so that of duplicate indices the last wins.
KERNEL(256) set_rows(const __grid_constant__ SetRowsParams p) {
  wait_for_inputs();
  const i64 t = blockIdx.x, tokens = p.x.dims[0];
  const i64 r = load_integer(at<const char>(p.index.data) + t * p.index.strides[0], p.index.dtype);
  if (r == -1) return;
  if (r < 0 || r >= p.rows) {
    if (threadIdx.x == 0) raise_fault(p.faults);
    return;
  }
  for (i64 later = t + 1; later < tokens; ++later)
    if (load_integer(at<const char>(p.index.data) + later * p.index.strides[0], p.index.dtype) == r) return;
  for (i64 i = threadIdx.x; i < p.h; i += blockDim.x)
    store_float(at<char>(p.table), p.table_dtype, r * p.h + i,
                load_float(at<const char>(p.x.data) + t * p.x.strides[0], p.x.dtype, i));
}
