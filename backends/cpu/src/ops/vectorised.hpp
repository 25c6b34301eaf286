// Rows of a kernel table for the three instruction sets: the same run function on another table of vector functions.
#pragma once

#include "../simd/vectors.hpp"
#include "tables.hpp"

namespace quern::cpu {

/// QUERN_CPU_KERNELS(QUERN_OP_SILU, "silu", accepts_silu, run_silu, scratch, predicate): run_silu is a template over Isa.
#define QUERN_CPU_KERNELS(op, name, accepts, run, scratch, predicate) \
  {op, name ".avx512", Isa::avx512, accepts, run<Isa::avx512>, scratch, predicate}, \
      {op, name ".avx2", Isa::avx2, accepts, run<Isa::avx2>, scratch, predicate}, { \
    op, name ".portable", Isa::baseline, accepts, run<Isa::baseline>, scratch, predicate \
  }

/// Rows that a thread takes at a time: about `work` elements.
inline std::int64_t rows_a_part(std::int64_t length, std::int64_t work = 8192) noexcept {
  return length >= work ? 1 : length <= 0 ? work : work / length;
}

/// Row `row` as packed f32: in place where it is that already, else converted into `buffer`.
inline const float* row_floats(const Vectors& vectors, const Tensor& view, std::int64_t row, float* buffer) noexcept {
  const std::byte* at = row_pointer(view, row);
  const std::int64_t length = view.last();
  if (!has_packed_rows(view)) load_floats(at, view.dtype, view.stride_from_end(0), 0, length, buffer);
  else if (view.dtype == QUERN_F32) return reinterpret_cast<const float*>(at);
  else if (is_float(view.dtype) || is_block(view.dtype)) vectors.to_floats(view.dtype, at, length, buffer);
  else load_floats(at, view.dtype, view.stride_from_end(0), 0, length, buffer);
  return buffer;
}

/// Where to compute row `row` of an output: in place if it is packed f32, else in `buffer`, which finish_row stores.
inline float* output_row(const Tensor& view, std::int64_t row, float* buffer) noexcept {
  if (view.dtype == QUERN_F32 && has_packed_rows(view)) return reinterpret_cast<float*>(row_pointer(view, row));
  return buffer;
}
inline void finish_row(const Vectors& vectors, const Tensor& view, std::int64_t row, const float* computed, const float* buffer) noexcept {
  if (computed != buffer) return;
  if (has_packed_rows(view) && is_float(view.dtype)) vectors.from_floats(view.dtype, buffer, view.last(), row_pointer(view, row));
  else store_row(view, row, 0, view.last(), buffer);
}

/// Elements [first, first + count) of row `row` of a float tensor as packed f32: in place where they are that, else in `buffer`.
inline const float* part_floats(const Vectors& vectors, const Tensor& view, std::int64_t row, std::int64_t first, std::int64_t count,
                                float* buffer) noexcept {
  if (!has_packed_rows(view)) {
    load_row(view, row, first, count, buffer);
    return buffer;
  }
  const std::byte* at = row_pointer(view, row) + first * unit_bytes(view.dtype);
  if (view.dtype == QUERN_F32) return reinterpret_cast<const float*>(at);
  vectors.to_floats(view.dtype, at, count, buffer);
  return buffer;
}
/// The same for an output; finish_part stores what was not computed in place.
inline float* output_part(const Tensor& view, std::int64_t row, std::int64_t first, float* buffer) noexcept {
  if (view.dtype == QUERN_F32 && has_packed_rows(view)) return reinterpret_cast<float*>(row_pointer(view, row)) + first;
  return buffer;
}
inline void finish_part(const Vectors& vectors, const Tensor& view, std::int64_t row, std::int64_t first, std::int64_t count,
                        const float* computed, const float* buffer) noexcept {
  if (computed != buffer) return;
  if (has_packed_rows(view)) vectors.from_floats(view.dtype, buffer, count, row_pointer(view, row) + first * unit_bytes(view.dtype));
  else store_row(view, row, first, count, buffer);
}

/// A predicate that speaks of rows asks for rows: x has more than one dimension.
inline Verdict check_row_predicate(const Call& call, const char* name) {
  if (!call.predicate.present() || call.input(0).rank > 1) return Verdict::yes();
  return Verdict::no(std::string(name) + " is " + shape_text(call.input(0)) + "; with one dimension it takes a predicate of one element");
}
/// Does the predicate let row `row` of input 0, counted over its leading dims, be written?
inline bool leading_row_live(const Call& call, std::int64_t row) noexcept {
  if (!call.predicate.present()) return true;
  const Tensor& x = call.input(0);
  return call.row_live(row / (x.rows() / x.dims[0]));
}

}  // namespace quern::cpu
