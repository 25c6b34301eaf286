// concat, pad, repeat: copies between views.
#include "arrange.hpp"

#include "strided.hpp"
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

void emit_pad(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), &y = call.output(0);
  const auto axis = static_cast<std::uint32_t>(call.integer(QUERN_KEY_AXIS));
  const std::int64_t before = call.integer(QUERN_KEY_BEFORE), after = call.integer(QUERN_KEY_AFTER);
  const auto value = static_cast<float>(call.real(QUERN_KEY_VALUE));
  if (before > 0) launch_fill(part_of(y, axis, 0, before), value, launcher);
  if (x.elements() > 0) launch_copy(x, part_of(y, axis, before, x.dims[axis]), {}, launcher);
  if (after > 0) launch_fill(part_of(y, axis, before + x.dims[axis], after), value, launcher);
}

void emit_repeat(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), &y = call.output(0);
  UnaryParams p{};
  p.x = operand_of(x);
  p.y = operand_of(y);
  p.shape = empty_walk;
  Operand* const both[] = {&p.x, &p.y};
  for (std::uint32_t d = 0; d < y.rank; ++d) {
    const bool there = d + x.rank >= y.rank;
    const std::int64_t n = there ? std::max<std::int64_t>(1, x.dims[d + x.rank - y.rank]) : 1;
    const std::int64_t again[] = {0, y.strides[d] * n}, inside[] = {there ? x.strides[d + x.rank - y.rank] : 0, y.strides[d]};
    add_dimension(p.shape, y.dims[d] / n, both, again);
    add_dimension(p.shape, n, both, inside);
  }
  finish(p.shape);
  launcher.launch(kernels::unary, launcher.spread(p.shape.count), 256, p);
}

constexpr Op table[] = {{QUERN_OP_CONCAT, "concat.cuda", refuse_concat, emit_concat},
                        {QUERN_OP_PAD, "pad.cuda", nullptr, emit_pad},
                        {QUERN_OP_REPEAT, "repeat.cuda", nullptr, emit_repeat}};

}  // namespace

const std::span<const Op> arrange_ops = table;

Tensor part_of(const Tensor& t, std::uint32_t axis, std::int64_t begin, std::int64_t n) {
  Tensor part = t;
  const sdk::ElementSize size = sdk::element_size(t.dtype);
  const std::int64_t unit = axis + 1 == t.rank ? static_cast<std::int64_t>(size.elements) : 1;
  part.data += static_cast<Address>(begin / unit * t.strides[axis]);
  part.dims[axis] = n;
  return part;
}

void launch_unpack(const Tensor& matrix, Address to, quern_dtype dtype, Launcher& launcher) {
  const UnpackParams p{blocks_of(matrix), to, static_cast<int>(dtype), matrix.dims[0], matrix.last(), 0, matrix.last()};
  launcher.launch(kernels::unpack_rows, launcher.spread(matrix.elements() / 16), 256, p);
}

void launch_fill(const Tensor& to, float value, Launcher& launcher) {
  FillParams p{};
  p.shape = walk_elements(to, {{to, p.y}});
  p.value = value;
  launcher.launch(kernels::fill, launcher.spread(p.shape.count), 256, p);
}

}  // namespace quern::cuda
