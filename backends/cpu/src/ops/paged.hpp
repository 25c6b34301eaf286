// Where a position of a sequence lies in a paged cache [pages, kv_heads, page, d].
#pragma once

#include "../kernel.hpp"

#include <initializer_list>

namespace quern::cpu {

/// Whether the vectors of their slots are packed.
inline Verdict accepts_caches(std::initializer_list<const Tensor*> caches) {
  for (const Tensor* cache : caches)
    if (!has_packed_rows(*cache)) return Verdict::no("the rows of a cache are not packed");
  return Verdict::yes();
}

/// The page of `position` in the sequence of `slot`; -1 if the slot, the position or the page id is out of range.
inline std::int64_t find_page(const Tensor& cache, const Tensor& block_table, std::int64_t slot, std::int64_t position) noexcept {
  const std::int64_t index = position / cache.dims[2];
  if (slot < 0 || slot >= block_table.dims[0] || position < 0 || index >= block_table.dims[1]) return -1;
  const std::int64_t page = load_integer(block_table, slot * block_table.dims[1] + index);
  return page < 0 || page >= cache.dims[0] ? -1 : page;
}

/// Address of the elements of one head at `slot_in_page` of a page.
inline std::byte* cache_row(const Tensor& cache, std::int64_t page, std::int64_t head, std::int64_t slot_in_page) noexcept {
  return bytes_of(cache) + page * cache.strides[0] + head * cache.strides[1] + slot_in_page * cache.strides[2];
}

/// Bytes of them.
inline std::int64_t head_row_bytes(const Tensor& cache) noexcept {
  return cache.dims[3] / unit_elements(cache.dtype) * unit_bytes(cache.dtype);
}

/// Rows may be the same or, where views overlap oddly, share bytes.
inline void copy_bytes(const std::byte* from, std::byte* to, std::int64_t count) noexcept {
  __builtin_memmove(to, from, static_cast<std::size_t>(count));
}

}  // namespace quern::cpu
