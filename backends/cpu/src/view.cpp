// Shapes and addresses of views, and rows of any dtype as f32.
#include "view.hpp"

#include "formats.hpp"
#include "half.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace quern::cpu {

std::byte* row_pointer(const Tensor& view, std::int64_t row) noexcept {
  std::int64_t offset = 0;
  for (std::uint32_t d = view.rank < 2 ? 0 : view.rank - 1; d-- > 0;) {
    if (d == 0) {
      offset += row * view.strides[0];
      break;
    }
    const std::int64_t above = row / view.dims[d];
    offset += (row - above * view.dims[d]) * view.strides[d];
    row = above;
  }
  return bytes_of(view) + offset;
}

std::byte* broadcast_row_pointer(const Tensor& view, const Tensor& shape, std::int64_t row) noexcept {
  std::int64_t offset = 0;
  for (std::uint32_t from_end = 1; from_end < shape.rank; ++from_end) {
    const std::int64_t size = shape.dims[shape.rank - 1 - from_end];
    const std::int64_t above = row / size, index = row - above * size;
    if (view.dim_from_end(from_end) != 1) offset += index * view.stride_from_end(from_end);
    row = above;
  }
  return bytes_of(view) + offset;
}

namespace {

template <typename Stored>
Stored read(const std::byte* from) noexcept {
  Stored value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

template <typename Stored, typename Convert>
void load_each(const std::byte* from, std::int64_t stride, std::int64_t count, float* out, const Convert& convert) noexcept {
  if (stride == static_cast<std::int64_t>(sizeof(Stored))) {
    for (std::int64_t i = 0; i < count; ++i) out[i] = convert(read<Stored>(from + i * static_cast<std::int64_t>(sizeof(Stored))));
  } else {
    for (std::int64_t i = 0; i < count; ++i) out[i] = convert(read<Stored>(from + i * stride));
  }
}

template <typename Stored, typename Convert>
void store_each(std::byte* to, std::int64_t stride, std::int64_t count, const float* in, const Convert& convert) noexcept {
  for (std::int64_t i = 0; i < count; ++i) {
    const Stored value = convert(in[i]);
    std::memcpy(to + i * stride, &value, sizeof(value));
  }
}

/// Rounds to nearest even and stays in the range of Stored; NaN is 0.
template <typename Stored>
Stored to_integer(float x) noexcept {
  constexpr double low = static_cast<double>(std::numeric_limits<Stored>::min());
  constexpr double high = static_cast<double>(std::numeric_limits<Stored>::max());
  const double rounded = __builtin_nearbyint(static_cast<double>(x));
  if (!(rounded >= low)) return rounded < low ? std::numeric_limits<Stored>::min() : Stored{0};
  return rounded >= high ? std::numeric_limits<Stored>::max() : static_cast<Stored>(rounded);
}

}  // namespace

void load_floats(const std::byte* row, quern_dtype dtype, std::int64_t stride, std::int64_t first, std::int64_t count,
                 float* out) noexcept {
  const auto as_is = [](auto x) { return static_cast<float>(x); };
  switch (dtype) {
    case QUERN_F32:
      if (stride == 4) std::memcpy(out, row + first * 4, static_cast<std::size_t>(count) * 4);
      else load_each<float>(row + first * stride, stride, count, out, as_is);
      return;
    case QUERN_F16: return load_each<std::uint16_t>(row + first * stride, stride, count, out, half_to_float);
    case QUERN_BF16: return load_each<std::uint16_t>(row + first * stride, stride, count, out, bfloat_to_float);
    case QUERN_I32: return load_each<std::int32_t>(row + first * stride, stride, count, out, as_is);
    case QUERN_U32: return load_each<std::uint32_t>(row + first * stride, stride, count, out, as_is);
    case QUERN_I64: return load_each<std::int64_t>(row + first * stride, stride, count, out, as_is);
    case QUERN_U8: return load_each<std::uint8_t>(row + first * stride, stride, count, out, as_is);
    default: break;
  }
  const std::int64_t elements = unit_elements(dtype);
  if (stride == unit_bytes(dtype)) return decode_blocks(dtype, row + first / elements * stride, count, out);
  for (std::int64_t i = 0; i < count; i += elements)
    decode_blocks(dtype, row + (first + i) / elements * stride, std::min(elements, count - i), out + i);
}

void store_floats(std::byte* row, quern_dtype dtype, std::int64_t stride, std::int64_t first, std::int64_t count,
                  const float* in) noexcept {
  switch (dtype) {
    case QUERN_F32:
      if (stride == 4) std::memcpy(row + first * 4, in, static_cast<std::size_t>(count) * 4);
      else store_each<float>(row + first * stride, stride, count, in, [](float x) { return x; });
      return;
    case QUERN_F16: return store_each<std::uint16_t>(row + first * stride, stride, count, in, float_to_half);
    case QUERN_BF16: return store_each<std::uint16_t>(row + first * stride, stride, count, in, float_to_bfloat);
    case QUERN_I32: return store_each<std::int32_t>(row + first * stride, stride, count, in, to_integer<std::int32_t>);
    case QUERN_U32: return store_each<std::uint32_t>(row + first * stride, stride, count, in, to_integer<std::uint32_t>);
    case QUERN_I64: return store_each<std::int64_t>(row + first * stride, stride, count, in, to_integer<std::int64_t>);
    case QUERN_U8: return store_each<std::uint8_t>(row + first * stride, stride, count, in, to_integer<std::uint8_t>);
    default: break;
  }
  const std::int64_t elements = unit_elements(dtype);
  for (std::int64_t i = 0; i < count; i += elements) encode_blocks(dtype, in + i, elements, row + (first + i) / elements * stride);
}

namespace {

/// Address of element `index` in row-major order. Not for block formats.
const std::byte* element_pointer(const Tensor& view, std::int64_t index) noexcept {
  const std::int64_t length = view.last();
  if (view.rank < 2) return bytes_of(view) + index * view.stride_from_end(0);
  return row_pointer(view, index / length) + index % length * view.stride_from_end(0);
}

}  // namespace

std::int64_t load_integer(const Tensor& view, std::int64_t index) noexcept {
  const std::byte* from = element_pointer(view, index);
  switch (view.dtype) {
    case QUERN_I64: return read<std::int64_t>(from);
    case QUERN_U32: return read<std::uint32_t>(from);
    case QUERN_U8: return read<std::uint8_t>(from);
    default: return read<std::int32_t>(from);
  }
}

float load_scalar(const Tensor& view, std::int64_t index) noexcept {
  float value = 0.0f;
  load_floats(element_pointer(view, index), view.dtype, 0, 0, 1, &value);
  return value;
}

}  // namespace quern::cpu
