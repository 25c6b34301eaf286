// The paged cache of a call, as kv_write and attention see it.
#pragma once

#include "../op.hpp"

namespace quern::cuda {

/// Checks a cache [pages, kv_heads, page, d] with its indices.
inline std::string check_pages(const Tensor& cache, const Tensor& block_table, const Tensor& row_slot,
                               const Tensor& position, std::int64_t rows) {
  if (!is_float(cache.dtype) && cache.dtype != QUERN_Q8_0 && cache.dtype != QUERN_Q4_0)
    return concat(describe(cache), "; a cache is f32, f16, bf16, q8_0 or q4_0");
  return first_of({check_rank(cache, 4), check_packed(cache), check_dtype(block_table, QUERN_I32),
                   check_rank(block_table, 2), check_packed(block_table), check_dtype(row_slot, QUERN_I32),
                   check_rank(row_slot, 1), check_packed(row_slot), check_dim(row_slot, 0, rows),
                   check_dtype(position, QUERN_I32), check_rank(position, 1), check_packed(position),
                   check_dim(position, 0, rows),
                   is_block(cache.dtype) && cache.last() % 32 != 0
                       ? "a head of a block format is a multiple of 32 elements"
                       : ""});
}

inline Pages pages_of(const Tensor& cache, const Tensor& block_table, const Tensor& row_slot, const Tensor& position) {
  Pages p{};
  p.cache = cache.data;
  p.dtype = static_cast<int>(cache.dtype);
  p.pages = static_cast<int>(cache.dims[0]);
  p.kv_heads = static_cast<int>(cache.dims[1]);
  p.page = static_cast<int>(cache.dims[2]);
  p.d = static_cast<int>(cache.dims[3]);
  p.block_table = block_table.data;
  p.row_slot = row_slot.data;
  p.position = position.data;
  p.sequences = static_cast<int>(block_table.dims[0]);
  p.pages_per_sequence = static_cast<int>(block_table.dims[1]);
  return p;
}

}  // namespace quern::cuda
