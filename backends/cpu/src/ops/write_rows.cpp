// set_rows: table[index[i]] = x[i], encoded; of duplicates the last wins. index_add: table[index[i]] += x[i], in the order of i.
//
// Index -1 skips; any other index out of range is skipped and raises INDEX_RANGE. A row of the table belongs to one shard, which
// goes through all of x in order: duplicates need no lock, and the result does not depend on the threads.
#include "vectorised.hpp"

#include <algorithm>

namespace quern::cpu {
namespace {

Verdict check_rows(const OpCall& call) {
  const TensorView &x = call.input(0), &index = call.input(1), &table = call.output(0);
  if (Verdict v = check_floats(x, "x"); !v) return v;
  if (index.dtype != QUERN_I32 && index.dtype != QUERN_I64)
    return Verdict::no(concat("index is ", dtype_name(index.dtype), "; it takes i32 or i64"));
  if (Verdict v = check_rank(x, "x", 2); !v) return v;
  if (Verdict v = check_rank(index, "index", 1); !v) return v;
  if (Verdict v = check_rank(table, "table", 2); !v) return v;
  if (Verdict v = check_dim(index, "index", 0, x.dims[0], "the rows of x"); !v) return v;
  return check_dim(table, "table", 1, x.dims[1], "the row length of x");
}
Verdict accepts_set(const OpCall& call) {
  const TensorView& table = call.output(0);
  if (!is_float(table.dtype) && table.dtype != QUERN_Q8_0 && table.dtype != QUERN_Q4_0)
    return Verdict::no(concat("table is ", dtype_name(table.dtype), "; set_rows takes f32, f16, bf16, q8_0 and q4_0"));
  return check_rows(call);
}
Verdict accepts_add(const OpCall& call) {
  if (Verdict v = check_floats(call.output(0), "table"); !v) return v;
  return check_rows(call);
}

template <bool add>
void write_row(const TensorView& x, std::int64_t i, const TensorView& table, std::int64_t row) noexcept {
  constexpr std::int64_t part = 256;  // a multiple of every block
  float values[part], before[part];
  const std::int64_t n = row_length(x);
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
void run(const OpCall& call, Context& context) noexcept {
  const TensorView &x = call.input(0), &index = call.input(1), &table = call.output(0);
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

constexpr Kernel kernels[] = {
    {QUERN_OP_SET_ROWS, "set_rows.portable", Isa::baseline, accepts_set, run<false>, nullptr, true},
    {QUERN_OP_INDEX_ADD, "index_add.portable", Isa::baseline, accepts_add, run<true>, nullptr, true},
};

}  // namespace

const std::span<const Kernel> write_rows_kernels = kernels;

}  // namespace quern::cpu
