// See optimiser.hpp.
#include "optimiser.hpp"
#include "../views.hpp"

#include <algorithm>

namespace quern::vulkan {

void launch_step(const Call& call, const Tensor& m, const Tensor& v, const Tensor& master, OptimiserParams p, std::int32_t plain,
                 Launcher& launcher) {
  const Tensor &gradient = call.input(0), &w = call.output(0);
  p.predicate = call.predicate.data;
  p.faults = launcher.faults();
  p.items_a_row =
      gradient.rank == 0 || gradient.dims[0] == 0 ? 1 : std::max<uint>(1, static_cast<uint>(gradient.elements() / gradient.dims[0]));
  for_each_part(gradient, {&gradient, &w, &m, &v, &master}, [&](const Shape& shape, const View* views) {
    p.shape = shape;
    p.gradient = views[0];
    p.w = views[1];
    p.m = views[2];
    p.v = views[3];
    p.master = views[4];
    launcher.launch("optimiser", launcher.item_threads(), launcher.spread(shape.count), p, {plain});
  });
}

std::string check_row_parts(const Call& call) {
  return call.predicate.present() && call.input(0).elements() >= std::int64_t{1} << 30
             ? "with a predicate a row fewer than 2^30 elements are taken"
             : "";
}

}  // namespace quern::vulkan
