// See tensor.hpp.
#include "tensor.hpp"

#include "kernels/dtypes.hpp"

#include <algorithm>
#include <iterator>

namespace quern::cuda {

#define QUERN_CUDA_SAME_ID(NAME) \
  static_assert(static_cast<quern_dtype>(NAME) == QUERN_##NAME, "kernels/dtypes.hpp differs from quern_dtypes.h");
QUERN_CUDA_SAME_ID(F32)
QUERN_CUDA_SAME_ID(F16)
QUERN_CUDA_SAME_ID(BF16)
QUERN_CUDA_SAME_ID(I32)
QUERN_CUDA_SAME_ID(I64)
QUERN_CUDA_SAME_ID(U32)
QUERN_CUDA_SAME_ID(U8)
QUERN_CUDA_FAST_FORMATS(QUERN_CUDA_SAME_ID, QUERN_CUDA_SAME_ID)
#undef QUERN_CUDA_SAME_ID

bool is_fast_format(quern_dtype dtype) noexcept {
#define QUERN_CUDA_ID(NAME) QUERN_##NAME,
  constexpr quern_dtype fast[] = {QUERN_CUDA_FAST_FORMATS(QUERN_CUDA_ID, QUERN_CUDA_ID)};
#undef QUERN_CUDA_ID
  return std::ranges::find(fast, dtype) != std::end(fast);
}

bool is_half_format(const Tensor& weights) noexcept {
#define QUERN_CUDA_ID(name, NAME) QUERN_##NAME,
  constexpr quern_dtype formats[] = {QUERN_CUDA_HALF_FORMATS(QUERN_CUDA_ID)};
#undef QUERN_CUDA_ID
  return std::ranges::find(formats, weights.dtype) != std::end(formats) &&
         (weights.packed_layout || (!sdk::gains_by_planes(weights.dtype) && is_contiguous(weights)));
}

bool is_group_format(quern_dtype dtype) noexcept {
#define QUERN_CUDA_ID(name, NAME) QUERN_##NAME,
  constexpr quern_dtype formats[] = {QUERN_CUDA_GROUP_FORMATS(QUERN_CUDA_ID)};
#undef QUERN_CUDA_ID
  return std::ranges::find(formats, dtype) != std::end(formats);
}
bool is_group_format(const Tensor& weights) noexcept { return is_group_format(weights.dtype) && weights.packed_layout; }

sdk::BlockFields fields_of(quern_dtype dtype) noexcept {
  if (!is_float(dtype)) return sdk::block_fields(dtype);
  const std::uint32_t bytes = dtype == QUERN_F32 ? 64 : 32;
  return {bytes, 16, {0}, {bytes}};
}

View view_of(const Tensor& tensor) noexcept {
  View view{};
  view.data = tensor.data;
  view.dtype = static_cast<int>(tensor.dtype);
  view.rank = static_cast<int>(tensor.rank);
  for (std::uint32_t d = 0; d < QUERN_MAX_DIMS; ++d) {
    view.dims[d] = d < tensor.rank ? tensor.dims[d] : 1;
    view.strides[d] = d < tensor.rank ? tensor.strides[d] : 0;
  }
  return view;
}

Blocks blocks_of(const Tensor& tensor) noexcept {
  const sdk::BlockFields fields = fields_of(tensor.dtype);
  Blocks blocks{};
  blocks.dtype = static_cast<int>(tensor.dtype);
  Address plane = tensor.data;
  const auto count = static_cast<std::uint64_t>(tensor.elements() / fields.elements);
  for (int p = 0; p < sdk::BlockFields::count; ++p) {
    blocks.plane[p] = tensor.packed_layout ? plane : tensor.data + fields.offset[p];
    blocks.stride[p] = static_cast<int>(tensor.packed_layout ? fields.bytes[p] : fields.block_bytes);
    plane += (count * fields.bytes[p] + sdk::plane_alignment - 1) / sdk::plane_alignment * sdk::plane_alignment;
  }
  blocks.aligned = tensor.packed_layout || !sdk::gains_by_planes(tensor.dtype) ? 1 : 0;
  return blocks;
}

Blocks blocks_of_rows(const Tensor& matrix, std::int64_t first) noexcept {
  Blocks blocks = blocks_of(matrix);
  const auto before = static_cast<Address>(first * (matrix.last() / fields_of(matrix.dtype).elements));
  for (int p = 0; p < sdk::BlockFields::count; ++p) blocks.plane[p] += before * static_cast<Address>(blocks.stride[p]);
  return blocks;
}

}  // namespace quern::cuda
