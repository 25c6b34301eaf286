// x with a value before and behind it along an axis: a copy and two fills.
#include "arrange.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_pad(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), &y = call.output(0);
  const auto axis = static_cast<std::uint32_t>(call.integer(QUERN_KEY_AXIS));
  const std::int64_t before = call.integer(QUERN_KEY_BEFORE), after = call.integer(QUERN_KEY_AFTER);
  const auto value = static_cast<float>(call.real(QUERN_KEY_VALUE));
  if (before > 0) launch_fill(part_of(y, axis, 0, before), value, launcher);
  if (x.elements() > 0) launch_copy(x, part_of(y, axis, before, x.dims[axis]), {}, launcher);
  if (after > 0) launch_fill(part_of(y, axis, before + x.dims[axis], after), value, launcher);
}

}  // namespace

const Op pad_op{QUERN_OP_PAD, "pad.cuda", nullptr, emit_pad};

}  // namespace quern::cuda
