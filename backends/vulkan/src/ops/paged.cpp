// See paged.hpp.
#include "paged.hpp"

namespace quern::vulkan {

std::string check_pages(const Tensor& cache, std::initializer_list<const Tensor*> indices) {
  std::string reason = sdk::check_packed_rows(cache);
  for (const Tensor* t : indices) reason = first_of({reason, check_contiguous(*t)});
  return reason;
}

std::string check_caches(const Call& call, std::initializer_list<const Tensor*> indices) {
  const Tensor &from = call.input(0), &to = call.output(0);
  for (std::uint32_t d = 0; d < 4; ++d)
    if (from.strides[d] != to.strides[d]) return concat(describe(from), " and ", describe(to), " lie in other steps");
  return check_pages(from, indices);
}

KvParams cache_params(const Tensor& cache, const Tensor& block_table, Launcher& launcher) {
  KvParams p{};
  p.cache = cache.data;
  p.page_stride = cache.strides[0];
  p.head_stride = cache.strides[1];
  p.position_stride = cache.strides[2];
  p.pages = static_cast<int>(cache.dims[0]);
  p.page = static_cast<int>(cache.dims[2]);
  p.kv_heads = static_cast<uint>(cache.dims[1]);
  p.d = static_cast<uint>(cache.dims[3]);
  const sdk::ElementSize size = sdk::element_size(cache.dtype);
  p.row_bytes = static_cast<int>(cache.dims[3] / static_cast<std::int64_t>(size.elements) * static_cast<std::int64_t>(size.bytes));
  p.block_table = block_table.data;
  if (block_table.present()) {
    p.sequences = static_cast<int>(block_table.dims[0]);
    p.pages_a_sequence = static_cast<int>(block_table.dims[1]);
  }
  p.faults = launcher.faults();
  return p;
}

}  // namespace quern::vulkan
