// x with a value before and behind it along an axis: a fill, and x over it.
#include "arrange.hpp"
#include "elementwise.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_pad(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), &y = call.output(0);
  fill_view(y, call.real(QUERN_KEY_VALUE), launcher);
  launcher.barrier();
  cast_view(x, part_of(y, x, call.integer(QUERN_KEY_AXIS), call.integer(QUERN_KEY_BEFORE)), launcher);
}

}  // namespace

const Op pad_op = offer(QUERN_OP_PAD, "pad.vulkan", nullptr, emit_pad);

}  // namespace quern::vulkan
