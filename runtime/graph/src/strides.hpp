// Where the elements of a value lie, in bytes.
#pragma once

#include "checked.hpp"

#include "quern/graph/graph.hpp"

#include <optional>

namespace quern::graph {

/// Row-major, at the largest extents; the last one is the bytes of an element, or of a block. The shape must have passed
/// byte_size().
inline std::vector<std::int64_t> contiguous_strides(quern_dtype dtype, const Shape& shape) {
  const BlockSize block = block_size(dtype);
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = block.bytes;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    const std::int64_t size = i + 1 == shape.size() ? shape[i].size / block.elements : shape[i].size;
    stride *= size > 0 ? size : 1;
  }
  return strides;
}

/// Bytes from the first element to behind the last one; 0 for a value without elements, nothing on overflow.
inline std::optional<std::uint64_t> extent_bytes(quern_dtype dtype, const Shape& shape, const std::vector<std::int64_t>& strides) {
  const BlockSize block = block_size(dtype);
  std::int64_t end = block.bytes;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::int64_t size = i + 1 == shape.size() ? shape[i].size / block.elements : shape[i].size;
    if (size == 0) return 0;
    std::int64_t step = 0;
    if (multiply_overflows(size - 1, strides[i], step) || add_overflows(end, step, end)) return std::nullopt;
  }
  return static_cast<std::uint64_t>(end);
}

}  // namespace quern::graph
