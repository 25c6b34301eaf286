// Tensors one behind another along an axis: a copy each. Kernel: copy.
#include "arrange.hpp"
#include "copy.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_concat(const Call& call, Launcher& launcher) {
  const std::int64_t axis = call.integer(QUERN_KEY_AXIS);
  std::int64_t first = 0;
  for (std::size_t i = 0; i < call.inputs.count; ++i) {
    const Tensor& x = call.input(i);
    copy_views(x, part_of(call.output(0), x, axis, first), {}, launcher);
    first += x.dims[axis];
  }
}

}  // namespace

const Op concat_op = offer(QUERN_OP_CONCAT, "concat.vulkan", nullptr, emit_concat);

}  // namespace quern::vulkan
