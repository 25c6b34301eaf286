// See tensor.hpp.
#include "tensor.hpp"

#include "kernels/dtypes.hpp"

#include <algorithm>
#include <utility>

namespace quern::cuda {

constexpr std::pair<int, quern_dtype> dtype_ids[] = {{F32, QUERN_F32},   {F16, QUERN_F16},   {BF16, QUERN_BF16}, {I32, QUERN_I32},
                                                     {I64, QUERN_I64},   {U32, QUERN_U32},   {U8, QUERN_U8},     {Q4_0, QUERN_Q4_0},
                                                     {Q4_1, QUERN_Q4_1}, {Q5_0, QUERN_Q5_0}, {Q5_1, QUERN_Q5_1}, {Q8_0, QUERN_Q8_0},
                                                     {Q4_K, QUERN_Q4_K}, {Q5_K, QUERN_Q5_K}, {Q6_K, QUERN_Q6_K}};
static_assert(std::ranges::all_of(dtype_ids, [](const auto& id) { return id.first == static_cast<int>(id.second); }),
              "kernels/dtypes.hpp differs from quern_dtypes.h");

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
