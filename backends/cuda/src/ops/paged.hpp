// The paged cache of a call: packed, as the fast kernels of attention see it, or with strides.
#pragma once

#include "../kernels/cache.hpp"
#include "strided.hpp"

namespace quern::cuda {

/// The vector of a slot is contiguous, the rest may be strided.
std::string check_cache(const Tensor& cache);
/// And the indices into it are packed.
std::string check_pages(const Tensor& cache, const Tensor& block_table, const Tensor& row_slot, const Tensor& position);

/// Why a predicate a row is no predicate of entries.
std::string check_one_predicate(const Call& call);
CacheView view_of_cache(const Tensor& cache);
PageTable table_of(const Tensor& cache, const Tensor& block_table, const Tensor& row_slot, const Tensor& position) noexcept;
/// [t, heads, d] with the strides of rows and heads.
Operand heads_of(const Tensor& tensor) noexcept;

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
