// x again and again until it fills y.
#include "../kernels/elementwise.hpp"

#include "strided.hpp"
#include "tables.hpp"

#include <algorithm>

namespace quern::cuda {
namespace {

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

}  // namespace

const Op repeat_op{QUERN_OP_REPEAT, "repeat.cuda", nullptr, emit_repeat};

}  // namespace quern::cuda
