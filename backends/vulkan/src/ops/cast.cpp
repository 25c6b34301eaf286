// Another dtype: between plain types, from block formats and to them.
#include "copy.hpp"
#include "elementwise.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

std::string refuse_cast(const Call& call) {
  const Tensor &x = call.input(0), &y = call.output(0);
  if (x.packed_layout) return concat(describe(x), " is packed and this kernel reads rows");
  if (x.dtype == y.dtype) return {};
  return is_block(x.dtype) ? check_floats(y) : is_block(y.dtype) ? check_floats(x) : "";
}

void emit_cast(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), &y = call.output(0);
  if (x.dtype == y.dtype) return copy_views(x, y, {}, launcher);
  if (!is_block(x.dtype) && !is_block(y.dtype)) return cast_view(x, y, launcher);
  if (is_block(x.dtype)) return decode_blocks(x, 0, 0, y, launcher);
  const auto unit = static_cast<std::int64_t>(sdk::element_size(y.dtype).elements);
  for_each_row_part(y, {&x, &y}, [&](const Shape& rows, const View* v) {
    const BlockRowsParams p{rows, v[0], v[1], 0, 0, static_cast<uint>(y.last() / unit), 0};
    launcher.launch("encode", launcher.item_threads(), launcher.spread(std::int64_t{rows.count} * p.units), p,
                    {static_cast<std::int32_t>(y.dtype)});
  });
}

}  // namespace

const Op cast_op = offer(QUERN_OP_CAST, "cast.vulkan", refuse_cast, emit_cast);

}  // namespace quern::vulkan
