// Sums along the last dimension.
#include "tables.hpp"
#include "../views.hpp"

namespace quern::vulkan {
namespace {

void emit_cumsum(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), &y = call.output(0);
  for_each_row_part(x, {&x, &y}, [&](const Shape& rows, const View* v) {
    RowParams p{};
    p.rows = rows;
    p.x = v[0];
    p.y = v[1];
    p.n = static_cast<uint>(x.last());
    launcher.launch("cumsum", launcher.row_threads(x.last()), launcher.rows(rows.count), p);
  });
}

}  // namespace

const Op cumsum_op = offer(QUERN_OP_CUMSUM, "cumsum.vulkan", nullptr, emit_cumsum);

}  // namespace quern::vulkan
