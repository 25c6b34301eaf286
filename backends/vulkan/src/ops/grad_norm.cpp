// The norm of several gradients, and whether they are finite.
#include "tables.hpp"
#include "../views.hpp"
#include "../shaders/modes.h"

#include <algorithm>

namespace quern::vulkan {
namespace {

constexpr std::int64_t groups_a_part = 128;
std::uint64_t norm_parts_of(const Tensor& t) { return static_cast<std::uint64_t>(t.elements() >> 29) + 2; }
std::uint64_t scratch_grad_norm(const Call& call) {
  std::uint64_t parts = 0;
  for (std::size_t i = 0; i < call.inputs.count; ++i) parts += norm_parts_of(call.input(i));
  return parts * groups_a_part * 8;
}
void emit_grad_norm(const Call& call, Launcher& launcher) {
  GradNormParams last{};
  last.partial = call.scratch;
  last.norm = call.output(0).data;
  last.finite = call.output(1).data;
  for (std::size_t i = 0; i < call.inputs.count; ++i)
    for_each_part(call.input(i), {&call.input(i)}, [&](const Shape& shape, const View* v) {
      GradNormParams p = last;
      p.shape = shape;
      p.x = v[0];
      p.partial = call.scratch + std::uint64_t{last.count} * 8;
      Launcher::Grid grid = launcher.spread(shape.count);
      grid.x = std::min(grid.x, groups_a_part);
      last.count += static_cast<uint>(grid.x);
      launcher.launch("grad_norm", launcher.item_threads(), grid, p, {grad_norm_parts});
    });
  launcher.barrier();
  launcher.launch("grad_norm", launcher.item_threads(), {1, 1, 1}, last, {grad_norm_whole});
}

}  // namespace

const Op grad_norm_op = offer(QUERN_OP_GRAD_NORM, "grad_norm.vulkan", nullptr, emit_grad_norm, scratch_grad_norm, false, true);

}  // namespace quern::vulkan
