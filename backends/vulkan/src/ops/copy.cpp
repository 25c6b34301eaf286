// The same bytes under other strides; and blocks decoded, for ops that are made of such (copy.hpp).
#include "copy.hpp"
#include "tables.hpp"

#include <algorithm>

namespace quern::vulkan {
namespace {

std::string refuse_copy(const Call& call) {
  const Tensor& x = call.input(0);
  if (x.packed_layout) return concat(describe(x), " is packed and this kernel reads rows");
  return call.predicate.present() && x.rank < 2 && is_block(x.dtype) ? concat(describe(x), ": a predicate a row needs rows") : "";
}

void emit_copy(const Call& call, Launcher& launcher) { copy_views(call.input(0), call.output(0), call.predicate, launcher); }

}  // namespace

const Op copy_op = offer(QUERN_OP_COPY, "copy.vulkan", refuse_copy, emit_copy, nullptr, true);

void copy_views(const Tensor& x, const Tensor& y, const Tensor& predicate, Launcher& launcher) {
  const auto bytes = static_cast<std::int32_t>(sdk::element_size(x.dtype).bytes);
  const Tensor from = in_units(x), to = in_units(y);
  for_each_part(to, {&from, &to}, [&](const Shape& shape, const View* views) {
    CopyParams p{};
    p.shape = shape;
    p.x = views[0];
    p.y = views[1];
    p.predicate = predicate.data;
    p.items_a_row = predicate.present() && to.dims[0] > 0 ? static_cast<uint>(to.elements() / to.dims[0]) : 1;
    launcher.launch("copy", launcher.item_threads(), launcher.spread(shape.count), p, {bytes, bytes % 4 == 0 ? 4 : bytes % 2 == 0 ? 2 : 1});
  });
}

void decode_blocks(const Tensor& x, std::int64_t first_row, std::int64_t first_column, const Tensor& y, Launcher& launcher) {
  const auto elements = static_cast<std::int64_t>(sdk::element_size(x.dtype).elements);
  const std::int64_t row_blocks = x.last() / elements;
  Tensor from = y;  // its dims, where the blocks are
  from.dtype = x.dtype;
  from.data = x.data;
  std::copy_n(x.strides, QUERN_MAX_DIMS, from.strides);
  if (!x.packed_layout) {
    if (x.rank > 1) from.data += static_cast<std::uint64_t>(first_row * x.strides[x.rank - 2]);
    from.data += static_cast<std::uint64_t>(first_column / elements * x.strides[x.rank - 1]);
  }
  for_each_row_part(y, {&from, &y}, [&](const Shape& rows, const View* v) {
    BlockRowsParams p{rows, v[0], v[1], 0, 0, static_cast<uint>(y.last() / 16), static_cast<uint>(row_blocks)};
    if (x.packed_layout) {
      p.x.data = x.data;
      p.blocks = static_cast<std::uint64_t>(x.rows() * row_blocks);
      p.first_block = static_cast<std::uint64_t>(first_row * row_blocks + first_column / elements);
    }
    launcher.launch("decode", launcher.item_threads(), launcher.spread(std::int64_t{rows.count} * p.units), p,
                    {static_cast<std::int32_t>(x.dtype), x.packed_layout ? 1 : 0});
  });
}

}  // namespace quern::vulkan
