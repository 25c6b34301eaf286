// What the ops over paged caches have in common.
#pragma once

#include "../op_call.hpp"

namespace quern::graph {

/// Rows of input x address the cache by block_table [s, p], row_slot [t] and position [t], all i32.
inline void paged_rows_rule(OpCall& call, std::size_t x, std::size_t block_table, std::size_t row_slot, std::size_t position) {
  call.dtype(block_table, i32_only);
  call.rank_is(block_table, 2);
  for (const std::size_t i : {row_slot, position}) {
    call.dtype(i, i32_only);
    call.rank_is(i, 1);
    call.same_dim(i, 0, x, 0);
  }
}

/// A cache [pages, kv_heads, page, size] of a type that caches may have.
inline void cache_rule(const OpCall& call, std::size_t i) {
  call.dtype(i, cache_types);
  call.rank_is(i, 4);
}

}  // namespace quern::graph
