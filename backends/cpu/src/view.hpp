// The SDK's tensors on the host: addresses of rows, and how kernels read and write rows of any dtype.
//
// At compile time a tensor's `data` is 0 and ranged dims hold their largest value; at run time dims are the exact ones. A kernel reads
// strides at run time: outer dims may be strided, broadcast (stride 0) or permuted. A "row" is the last dimension.
// Rows may be loaded as f32 in parts, whatever the dtype and the stride of the last dimension, so that a plain kernel needs
// one loop for all dtypes and a small buffer on the stack.
#pragma once

#include "quern/sdk/host_kernels.hpp"

#include <cstddef>
#include <cstdint>

namespace quern::cpu {

using sdk::is_block;
using sdk::is_float;
using sdk::Tensor;

/// Bytes of one element, or of one block of a format; 0 for an unknown dtype.
inline std::int64_t unit_bytes(quern_dtype dtype) noexcept { return static_cast<std::int64_t>(sdk::find_element_size(dtype).bytes); }
/// Elements in a unit: 1, or those of a block.
inline std::int64_t unit_elements(quern_dtype dtype) noexcept { return static_cast<std::int64_t>(sdk::find_element_size(dtype).elements); }

/// Where it begins in memory.
inline std::byte* bytes_of(const Tensor& view) noexcept { return sdk::at<std::byte>(view.data); }
/// Address of the first element of row `row`, counted in row-major order over the leading dims.
std::byte* row_pointer(const Tensor& view, std::int64_t row) noexcept;
/// Address of the row of `view` that broadcasts to row `row` of `shape` (dims of 1 and missing leading dims repeat).
std::byte* broadcast_row_pointer(const Tensor& view, const Tensor& shape, std::int64_t row) noexcept;

/// out[0..count) = elements first.. of the row that starts at `row`, as f32. Exact for f32, f16, bf16, symmetric formats; half an
/// ulp for formats with an offset; integers are converted. For block formats `first` is a multiple of the block's elements and
/// a partial last block is allowed. `stride` is the stride of the last dim.
void load_floats(const std::byte* row, quern_dtype dtype, std::int64_t stride, std::int64_t first, std::int64_t count, float* out) noexcept;
/// The reverse: rounds to nearest even; NaN stays NaN. Block formats are encoded by their rule; first and count are then
/// multiples of the block.
void store_floats(std::byte* row, quern_dtype dtype, std::int64_t stride, std::int64_t first, std::int64_t count, const float* in) noexcept;

inline void load_row(const Tensor& view, std::int64_t row, std::int64_t first, std::int64_t count, float* out) noexcept {
  load_floats(row_pointer(view, row), view.dtype, view.stride_from_end(0), first, count, out);
}
inline void store_row(const Tensor& view, std::int64_t row, std::int64_t first, std::int64_t count, const float* in) noexcept {
  store_floats(row_pointer(view, row), view.dtype, view.stride_from_end(0), first, count, in);
}

/// One element of an index tensor (i32, u32, i64, u8) as a 64-bit integer; index counts in row-major order.
std::int64_t load_integer(const Tensor& view, std::int64_t index) noexcept;
/// One element of a float tensor, in row-major order.
float load_scalar(const Tensor& view, std::int64_t index) noexcept;

}  // namespace quern::cpu
