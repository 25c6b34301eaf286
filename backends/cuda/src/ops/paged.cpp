// See paged.hpp.
#include "paged.hpp"

namespace quern::cuda {

std::string check_cache(const Tensor& cache) { return sdk::check_packed_rows(cache); }

std::string check_pages(const Tensor& cache, const Tensor& block_table, const Tensor& row_slot, const Tensor& position) {
  return first_of({check_cache(cache), check_contiguous(block_table), check_contiguous(row_slot), check_contiguous(position)});
}

std::string check_one_predicate(const Call& call) {
  return call.predicate.elements() == 1 ? "" : "entries of a cache have no rows of their own: the predicate is one number";
}

CacheView view_of_cache(const Tensor& cache) {
  const sdk::ElementSize size = sdk::element_size(cache.dtype);
  CacheView view{};
  view.data = cache.data;
  view.dtype = static_cast<int>(cache.dtype);
  view.pages = static_cast<int>(cache.dims[0]);
  view.kv_heads = static_cast<int>(cache.dims[1]);
  view.page = static_cast<int>(cache.dims[2]);
  view.d = static_cast<int>(cache.dims[3]);
  view.page_stride = cache.strides[0];
  view.head_stride = cache.strides[1];
  view.slot_stride = cache.strides[2];
  view.vector_bytes = cache.dims[3] / static_cast<std::int64_t>(size.elements) * static_cast<std::int64_t>(size.bytes);
  return view;
}

PageTable table_of(const Tensor& cache, const Tensor& block_table, const Tensor& row_slot, const Tensor& position) noexcept {
  return {block_table.data,
          row_slot.data,
          position.data,
          static_cast<int>(block_table.dims[0]),
          static_cast<int>(block_table.dims[1]),
          static_cast<int>(cache.dims[2])};
}

Operand heads_of(const Tensor& tensor) noexcept {
  Operand operand = operand_of(tensor);
  operand.strides[0] = tensor.strides[0];
  operand.strides[1] = tensor.strides[1];
  return operand;
}

}  // namespace quern::cuda
