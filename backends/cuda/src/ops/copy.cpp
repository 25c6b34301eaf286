// copy between views of one dtype, block formats too.
#include "arrange.hpp"
#include "strided.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

std::string refuse_copy(const Call& call) {
  const Tensor &x = call.input(0), &y = call.output(0);
  if (call.predicate.elements() != 1 && x.rank < 2 && is_block(x.dtype))
    return "a predicate a row needs rows, and this is one row of blocks";
  return first_of({check_units(x), check_units(y)});
}

void emit_copy(const Call& call, Launcher& launcher) { launch_copy(call.input(0), call.output(0), live_of(call), launcher); }

}  // namespace

const Op copy_op{QUERN_OP_COPY, "copy.cuda", refuse_copy, emit_copy, nullptr, true};

std::string check_units(const Tensor& t) {
  const bool apart = is_block(t.dtype) &&
                     (t.rank == 0 || t.strides[t.rank - 1] != static_cast<std::int64_t>(sdk::element_size(t.dtype).bytes));
  return apart ? concat(describe(t), ": the blocks of a row lie behind each other") : "";
}

Tensor in_units(const Tensor& t) {
  if (!is_block(t.dtype)) return t;
  const sdk::ElementSize size = sdk::element_size(t.dtype);
  Tensor units = t;
  units.dtype = QUERN_F16;  // any type of two bytes
  units.dims[t.rank - 1] = t.last() / static_cast<std::int64_t>(size.elements) * static_cast<std::int64_t>(size.bytes / 2);
  units.strides[t.rank - 1] = 2;
  return units;
}

void launch_copy(const Tensor& from, const Tensor& to, const Live& live, Launcher& launcher) {
  const Tensor x = in_units(from), y = in_units(to);
  CopyParams p{};
  p.shape = walk_elements(y, {{x, p.x}, {y, p.y}});
  p.bytes = static_cast<int>(sdk::element_size(y.dtype).bytes);
  p.live = live;
  p.elements_a_row = y.rank == 0 || y.dims[0] == 0 ? 1 : y.elements() / y.dims[0];
  const auto wide = [&](const Operand& o) { return o.strides[0] == p.bytes && o.data % 16 == 0; };
  if (const std::int64_t units = 16 / p.bytes;
      live.data == 0 && p.shape.rank == 1 && wide(p.x) && wide(p.y) && p.shape.count % units == 0) {
    p.shape.count /= units;
    p.x.strides[0] = p.y.strides[0] = p.bytes = 16;
  }
  launcher.launch(kernels::copy_elements, launcher.spread(p.shape.count), 256, p);
}

}  // namespace quern::cuda
