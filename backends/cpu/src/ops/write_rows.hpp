// What set_rows and index_add share: rows of x go to rows of a table.
//
// Index -1 skips; any other index out of range is skipped and raises INDEX_RANGE. A row of the table belongs to one shard, which
// goes through all of x in order: duplicates need no lock, and the result does not depend on the threads.
#pragma once

#include "vectorised.hpp"

#include <algorithm>

namespace quern::cpu {

template <bool add>
void write_row(const Tensor& x, std::int64_t i, const Tensor& table, std::int64_t row) noexcept {
  constexpr std::int64_t part = 256;  // a multiple of every block
  float values[part], before[part];
  const std::int64_t n = x.last();
  for (std::int64_t first = 0; first < n; first += part) {
    const std::int64_t count = std::min(part, n - first);
    load_row(x, i, first, count, values);
    if (add) {
      load_row(table, row, first, count, before);
      for (std::int64_t j = 0; j < count; ++j) values[j] += before[j];
    }
    store_row(table, row, first, count, values);
  }
}

template <bool add>
void write_rows(const Call& call, Context& context) noexcept {
  const Tensor &x = call.input(0), &index = call.input(1), &table = call.output(0);
  const std::int64_t rows = table.dims[0], shards = std::min<std::int64_t>(rows, std::int64_t{4} * context.thread_count());
  context.parallel(shards, 1, [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    for (std::int64_t shard = begin; shard < end; ++shard)
      for (std::int64_t i = 0; i < x.dims[0]; ++i) {
        const std::int64_t row = load_integer(index, i);
        if (row == -1 || !call.row_live(i)) continue;
        if (row < 0 || row >= rows) context.fault(QUERN_FAULT_INDEX_RANGE);
        else if (row % shards == shard) write_row<add>(x, i, table, row);
      }
  });
}

}  // namespace quern::cpu
