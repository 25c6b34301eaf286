// Columns of x, chosen by an index.
#include "rows.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

std::string refuse_take(const Call& call) { return first_of({check_count(call.input(0)), check_count(call.output(0))}); }
void emit_take(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), &y = call.output(0);
  const RowsParams p = row_params(x, call.input(1), y, {}, launcher);
  launcher.launch("take", launcher.item_threads(), launcher.spread(y.elements()), p, {static_cast<std::int32_t>(x.dtype)});
}

}  // namespace

const Op take_op = offer(QUERN_OP_TAKE, "take.vulkan", refuse_take, emit_take);

}  // namespace quern::vulkan
