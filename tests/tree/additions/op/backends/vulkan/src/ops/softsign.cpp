// y = x / (1 + |x|).
#include "../views.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_softsign(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), &y = call.output(0);
  for_each_part(y, {&x, &y}, [&](const Shape& shape, const View* v) {
    const ElementwiseParams p{shape, v[0], {}, v[1], 0, 0};
    launcher.launch("softsign", launcher.item_threads(), launcher.spread(shape.count), p);
  });
}

}  // namespace

const Op softsign_op = offer(QUERN_OP_SOFTSIGN, "softsign.vulkan", nullptr, emit_softsign);

}  // namespace quern::vulkan
