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
/// The elements of step i of a walk that may be wide.
DEV void load_step(const Operand& o, const Shape& s, i64 i, float* v) {
  const char* from = place(o, s, i);
  if (!s.wide) {
    v[0] = load_float(from, o.dtype, 0);
    return;
  }
  const uint4 first = *reinterpret_cast<const uint4*>(from);
  if (o.dtype == F32) {
    const uint4 second = *reinterpret_cast<const uint4*>(from + 16);
#pragma unroll
    for (int e = 0; e < wide_step; ++e) v[e] = __uint_as_float(word_of(e < 4 ? first : second, e % 4));
    return;
  }
#pragma unroll
  for (int e = 0; e < wide_step; ++e) {
    const u16 h = (u16)(word_of(first, e / 2) >> e % 2 * 16);
    v[e] = o.dtype == F16 ? from_half(h) : from_bf16(h);
  }
}
DEV void store_step(const Operand& o, const Shape& s, i64 i, const float* v) {
  char* to = place(o, s, i);
  if (!s.wide) return store_float(to, o.dtype, 0, v[0]);
  uint4* words = reinterpret_cast<uint4*>(to);
  const auto bits = [&](int e) { return __float_as_uint(v[e]); };
  if (o.dtype == F32) {
    words[0] = make_uint4(bits(0), bits(1), bits(2), bits(3));
    words[1] = make_uint4(bits(4), bits(5), bits(6), bits(7));
    return;
  }
  const auto both = [&](int e) {
    return o.dtype == F16 ? (u32)to_half(v[e]) | (u32)to_half(v[e + 1]) << 16 : (u32)to_bf16(v[e]) | (u32)to_bf16(v[e + 1]) << 16;
  };
  *words = make_uint4(both(0), both(2), both(4), both(6));
}
/// The elements of a step.
#define EACH_OF_STEP(e, s) \
  _Pragma("unroll") for (int e = 0; e < wide_step; ++e) \
    if (e == 0 || (s).wide)

/// Whether the predicate lets row `row` of the first input be written.
DEV bool is_live(const Live& live, i64 row) { return !live.data || at<const int>(live.data)[live.count == 1 ? 0 : row] != 0; }
