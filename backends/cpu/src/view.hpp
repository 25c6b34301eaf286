// What a kernel sees of a tensor: an address, a dtype, dims and byte strides; and how it reads and writes rows of any dtype.
//
// At compile time `data` is null and ranged dims hold their largest value; at run time dims are the exact ones. A kernel reads
// strides at run time: outer dims may be strided, broadcast (stride 0) or permuted. A "row" is the last dimension.
// Rows may be loaded as f32 in parts, whatever the dtype and the stride of the last dimension, so that a plain kernel needs
// one loop for all dtypes and a small buffer on the stack.
#pragma once

#include "quern/quern_graph.h"

#include <cstddef>
#include <cstdint>

namespace quern::cpu {

struct PackedLayout;

struct TensorView {
  std::byte* data = nullptr;
  quern_dtype dtype = QUERN_DTYPE_NONE;  // NONE: an optional input or output that is absent
  std::uint32_t rank = 0;
  std::uint32_t ranged = 0;  // bit d: dims[d] is smaller or equal at run time
  std::int64_t dims[QUERN_MAX_DIMS] = {};
  std::int64_t strides[QUERN_MAX_DIMS] = {};  // bytes; of the last dim: of an element, or of a block for formats
  const PackedLayout* layout = nullptr;       // a matrix or experts packed as panels (packed/packed.hpp): strides mean nothing. Else null

  bool present() const noexcept { return dtype != QUERN_DTYPE_NONE; }
  /// dims[rank - 1 - from_end]; 1 beyond the rank, so that a missing leading dim reads as 1.
  std::int64_t dim_from_end(std::uint32_t from_end) const noexcept { return from_end < rank ? dims[rank - 1 - from_end] : 1; }
  std::int64_t stride_from_end(std::uint32_t from_end) const noexcept { return from_end < rank ? strides[rank - 1 - from_end] : 0; }
};

/// The tensor that stands for an absent optional input.
extern const TensorView absent_view;

/// Bytes of one element, or of one block of a format; 0 for an unknown dtype.
std::int64_t unit_bytes(quern_dtype dtype) noexcept;
/// Elements in a unit: 1, 32 or 256.
std::int64_t unit_elements(quern_dtype dtype) noexcept;
bool is_float(quern_dtype dtype) noexcept;  // f32 f16 bf16
bool is_block(quern_dtype dtype) noexcept;  // a block format of quern_formats.h

std::int64_t element_count(const TensorView& view) noexcept;
/// Product of all dims but the last (1 for rank 0 and 1).
std::int64_t row_count(const TensorView& view) noexcept;
/// The last dim; 1 for a scalar.
std::int64_t row_length(const TensorView& view) noexcept;
/// Address of the first element of row `row`, counted in row-major order over the leading dims.
std::byte* row_pointer(const TensorView& view, std::int64_t row) noexcept;
/// Address of the row of `view` that broadcasts to row `row` of `shape` (dims of 1 and missing leading dims repeat).
std::byte* broadcast_row_pointer(const TensorView& view, const TensorView& shape, std::int64_t row) noexcept;
/// The last dim is packed (or has one element).
bool rows_are_packed(const TensorView& view) noexcept;
/// All of it is packed in row-major order.
bool is_contiguous(const TensorView& view) noexcept;
bool same_shape(const TensorView& a, const TensorView& b) noexcept;
/// b broadcasts to a: aligned at the last dim, each dim of b is 1 or that of a.
bool broadcasts_to(const TensorView& b, const TensorView& a) noexcept;

/// out[0..count) = elements first.. of the row that starts at `row`, as f32. Exact for f32, f16, bf16, symmetric formats; half an
/// ulp for formats with an offset; integers are converted. For block formats `first` is a multiple of the block's elements and
/// a partial last block is allowed. `stride` is the stride of the last dim.
void load_floats(const std::byte* row, quern_dtype dtype, std::int64_t stride, std::int64_t first, std::int64_t count, float* out) noexcept;
/// The reverse: rounds to nearest even; NaN stays NaN. Block formats (all eight) are encoded by their rule; first and count are then
/// multiples of the block.
void store_floats(std::byte* row, quern_dtype dtype, std::int64_t stride, std::int64_t first, std::int64_t count, const float* in) noexcept;

inline void load_row(const TensorView& view, std::int64_t row, std::int64_t first, std::int64_t count, float* out) noexcept {
  load_floats(row_pointer(view, row), view.dtype, view.stride_from_end(0), first, count, out);
}
inline void store_row(const TensorView& view, std::int64_t row, std::int64_t first, std::int64_t count, const float* in) noexcept {
  store_floats(row_pointer(view, row), view.dtype, view.stride_from_end(0), first, count, in);
}

/// One element of an index tensor (i32, u32, i64, u8) as a 64-bit integer; index counts in row-major order.
std::int64_t load_integer(const TensorView& view, std::int64_t index) noexcept;
/// One element of a float tensor, in row-major order.
float load_scalar(const TensorView& view, std::int64_t index) noexcept;

}  // namespace quern::cpu
