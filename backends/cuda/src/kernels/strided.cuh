// Where the elements and rows of strided operands lie, and which rows are live. See strided.hpp.
#pragma once
#include "prelude.cuh"
#include "strided.hpp"

/// Element (or row) i of a walk.
DEV char* place(const Operand& o, const Shape& s, i64 i) {
  char* p = at<char>(o.data);
  if (s.rank == 1) return p + i * o.strides[0];
  if (s.count < 0x7fffffff) {
    u32 rest = (u32)i;
    for (int d = s.rank - 1; d > 0; --d) {
      const u32 n = (u32)s.dims[d], c = rest % n;
      rest /= n;
      p += (i64)c * o.strides[d];
    }
    return p + (i64)rest * o.strides[0];
  }
  for (int d = s.rank - 1; d > 0; --d) {
    p += i % s.dims[d] * o.strides[d];
    i /= s.dims[d];
  }
  return p + i * o.strides[0];
}

/// Element i of a row that starts at `row`.
DEV float load_at(const Operand& o, const char* row, i64 i) { return load_float(row + i * o.step, o.dtype, 0); }
DEV void store_at(const Operand& o, char* row, i64 i, float v) { store_float(row + i * o.step, o.dtype, 0, v); }
/// Element i of a walk over elements.
DEV float load_place(const Operand& o, const Shape& s, i64 i) { return load_float(place(o, s, i), o.dtype, 0); }
DEV void store_place(const Operand& o, const Shape& s, i64 i, float v) { store_float(place(o, s, i), o.dtype, 0, v); }

/// Whether the predicate lets row `row` of the first input be written.
DEV bool is_live(const Live& live, i64 row) { return !live.data || at<const int>(live.data)[live.count == 1 ? 0 : row] != 0; }
