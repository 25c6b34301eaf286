// See rows.hpp.
#include "rows.hpp"

namespace quern::vulkan {

RowsParams row_params(const Tensor& table, const Tensor& index, const Tensor& x, const Tensor& predicate, Launcher& launcher) {
  RowsParams p{};
  p.table = table.data;
  p.index = index.data;
  p.x = x.data;
  p.predicate = predicate.data;
  p.faults = launcher.faults();
  p.table_stride = table.strides[0];
  p.x_stride = x.strides[0];
  p.table_step = static_cast<int>(table.strides[1]);
  p.x_step = static_cast<int>(x.strides[1]);
  p.index_step = static_cast<int>(index.strides[0]);
  p.x_dtype = static_cast<int>(x.dtype);
  p.index_dtype = static_cast<int>(index.dtype);
  p.count = static_cast<uint>(index.dims[0]);
  p.rows = static_cast<uint>(table.dims[0]);
  p.h = static_cast<uint>(table.dims[1]);
  return p;
}

std::string check_count(const Tensor& x) {
  return x.elements() >= std::int64_t{1} << 31 ? concat(describe(x), "; fewer than 2^31 elements are taken") : "";
}

std::string refuse_written_rows(const Call& call) {
  const Tensor& table = call.output(0);
  return first_of({is_block(table.dtype) ? sdk::check_packed_rows(table) : "", check_count(call.input(0))});
}
std::uint64_t scratch_lists(const Call& call) { return static_cast<std::uint64_t>(2 * call.input(1).dims[0] + call.output(0).dims[0]) * 4; }
std::int64_t list_turns(const Call& call) { return 2 * call.input(1).dims[0] + 64; }

void launch_written_rows(const Call& call, std::int32_t mode, Launcher& launcher) {
  const Tensor &x = call.input(0), &table = call.output(0);
  if (x.elements() == 0) return;
  const std::int64_t unit = is_block(table.dtype) ? 32 : 1;
  RowsParams p = row_params(table, call.input(1), x, call.predicate, launcher);
  p.lists = call.scratch;
  launcher.launch("row_lists", launcher.item_threads(), {1, 1, 1}, p);
  launcher.barrier();
  launcher.launch("write_rows", launcher.item_threads(), launcher.spread(x.elements() / unit), p,
                  {static_cast<std::int32_t>(table.dtype), mode});
}

}  // namespace quern::vulkan
