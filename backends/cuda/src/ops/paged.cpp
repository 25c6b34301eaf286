// See paged.hpp.
#include "paged.hpp"

namespace quern::cuda {

std::string check_cache(const Tensor& cache) {
  if (!is_float(cache.dtype) && cache.dtype != QUERN_Q8_0 && cache.dtype != QUERN_Q4_0)
    return concat(describe(cache), "; a cache is f32, f16, bf16, q8_0 or q4_0");
  if (std::string r = check_rank(cache, 4); !r.empty()) return r;
  if (cache.last() > 1 && cache.strides[3] != static_cast<std::int64_t>(sdk::element_size(cache.dtype).bytes))
    return concat(describe(cache), ": the elements of a slot lie behind each other");
  return cache.dims[2] > 0 ? "" : concat(describe(cache), " has pages without slots");
}

std::string check_indices(const Tensor& indices, std::int64_t rows) {
  return first_of({check_dtype(indices, QUERN_I32), check_rank(indices, 1), check_contiguous(indices), check_dim(indices, 0, rows)});
}

std::string check_pages(const Tensor& cache, const Tensor& block_table, const Tensor& row_slot, const Tensor& position, std::int64_t rows) {
  return first_of({check_cache(cache), check_dtype(block_table, QUERN_I32), check_rank(block_table, 2), check_contiguous(block_table),
                   check_indices(row_slot, rows), check_indices(position, rows)});
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
