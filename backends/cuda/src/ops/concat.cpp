// Tensors one behind another along an axis: a copy each.
#include "arrange.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

/// Why blocks cannot be joined: those of a row lie apart.
std::string refuse_concat(const Call& call) {
  std::string reason = check_units(call.output(0));
  for (const Tensor& x : call.inputs) reason = first_of({reason, check_units(x)});
  return reason;
}

void emit_concat(const Call& call, Launcher& launcher) {
  const auto axis = static_cast<std::uint32_t>(call.integer(QUERN_KEY_AXIS));
  std::int64_t at = 0;
  for (const Tensor& x : call.inputs) {
    if (x.elements() > 0) launch_copy(x, part_of(call.output(0), axis, at, x.dims[axis]), {}, launcher);
    at += x.dims[axis];
  }
}

}  // namespace

const Op concat_op{QUERN_OP_CONCAT, "concat.cuda", refuse_concat, emit_concat};

}  // namespace quern::cuda
