#version 460
// y[i][j] = x[i][index[j]], an element an invocation. `table` has the rows of x. Constant 1: their dtype.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
layout(constant_id = 1) const int dtype = F32;
PUSHED(RowsParams)

void main() {
  FOR_EACH_ITEM(item, p.rows * p.count) {
    const uint i = item / p.count, j = item % p.count;
    const int from = load_index(p.index + uint64_t(int64_t(j) * int64_t(p.index_step)), p.index_dtype);
    const bool inside = from >= 0 && uint(from) < p.h;
    if (!inside) raise(p.faults, FAULT_INDEX_RANGE);
    const uint64_t x = p.table + uint64_t(int64_t(i) * p.table_stride + int64_t(max(from, 0)) * int64_t(p.table_step));
    store_float(p.x + uint64_t(int64_t(i) * p.x_stride + int64_t(j) * int64_t(p.x_step)), p.x_dtype, inside ? load_float(x, dtype) : 0.0);
  }
}
