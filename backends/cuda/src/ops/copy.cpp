// copy between views of one dtype; cast between float dtypes and from block formats.
#include "tables.hpp"

namespace quern::cuda {
namespace {

std::string refuse_copy(const Call& call) {
  const Tensor &x = call.input(0), &y = call.output(0);
  if (x.dtype != y.dtype) return concat(describe(x), " and ", describe(y), " have one element type");
  if (is_block(x.dtype) && (!x.contiguous() || !y.contiguous())) return concat(describe(x), ": block formats are copied packed only");
  return check_same(x, y);
}

void emit_copy(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), &y = call.output(0);
  CopyParams p{view_of(x), view_of(y), y.elements()};
  if (is_block(x.dtype)) {
    const Pieces pieces = pieces_of(x.dtype);
    p.count = y.elements() / pieces.elements * pieces.block_bytes / 2;
    launcher.launch("elementwise", "copy_bytes", launcher.spread(p.count), 256, p);
  } else {
    launcher.launch("elementwise", "copy_elements", launcher.spread(p.count), 256, p);
  }
}

std::string refuse_cast(const Call& call) {
  const Tensor &x = call.input(0), &y = call.output(0);
  if (is_block(x.dtype)) return first_of({check_floats(y), check_packed(x), check_packed(y), check_same(x, y)});
  if (is_block(y.dtype)) return "cast: this plugin does not encode block formats";
  return first_of({check_floats(x), check_floats(y), check_same(x, y)});
}

void emit_cast(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), &y = call.output(0);
  if (is_block(x.dtype)) {
    const UnpackParams p{blocks_of(x), y.data, static_cast<int>(y.dtype), x.rows(), x.last()};
    launcher.launch("weights", "unpack_rows", launcher.spread(x.elements() / 16), 256, p);
    return;
  }
  const UnaryParams p{view_of(x), view_of(y), static_cast<int>(call.op), 0, 0, y.elements()};
  launcher.launch("elementwise", "unary", launcher.spread(p.count), 256, p);
}

constexpr Op table[] = {{QUERN_OP_COPY, "copy.cuda", refuse_copy, emit_copy}, {QUERN_OP_CAST, "cast.cuda", refuse_cast, emit_cast}};

}  // namespace

const std::span<const Op> copy_ops = table;

}  // namespace quern::cuda
