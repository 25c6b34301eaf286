// cast between floats, between them and i32, from block formats and to them.
#include "../kernels/cast.hpp"

#include "arrange.hpp"
#include "strided.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

std::string refuse_cast(const Call& call) {
  const Tensor &x = call.input(0), &y = call.output(0);
  std::string reason = first_of({check_units(x), check_units(y)});
  if (!reason.empty() || x.dtype == y.dtype) return reason;
  return is_block(x.dtype) ? check_floats(y) : is_block(y.dtype) ? check_floats(x) : "";
}

void emit_cast(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), &y = call.output(0);
  if (x.dtype == y.dtype) return launch_copy(x, y, {}, launcher);
  if (is_block(x.dtype) || is_block(y.dtype)) {
    const bool decodes = is_block(x.dtype);
    BlockCastParams p{};
    p.rows = walk_rows(y, {{x, p.x}, {y, p.y}});
    p.h = y.last();
    Tensor start = decodes ? x : y;
    start.data = 0;
    start.packed_layout = false;
    p.blocks = blocks_of(start);
    const std::int64_t warps = p.rows.count * (p.h / fields_of(start.dtype).elements);
    launcher.launch(decodes ? kernels::decode_rows : kernels::encode_rows, launcher.spread(decodes ? p.rows.count * p.h / 16 : warps * 32),
                    256, p);
    return;
  }
  launch_cast(x, y, launcher);
}

}  // namespace

void launch_cast(const Tensor& x, const Tensor& y, Launcher& launcher) {
  const bool floats = is_float(x.dtype) && is_float(y.dtype);
  UnaryParams p{};
  p.shape = floats ? walk_steps(y, {{x, p.x}, {y, p.y}}) : walk_elements(y, {{x, p.x}, {y, p.y}});
  launcher.launch(floats ? kernels::unary : kernels::cast_integers, launcher.spread(p.shape.count), 256, p);
}

const Op cast_op{QUERN_OP_CAST, "cast.cuda", refuse_cast, emit_cast};

}  // namespace quern::cuda
