// dx of softmax, by y and dy.
#include "tables.hpp"
#include "../views.hpp"

namespace quern::vulkan {
namespace {

void emit_softmax_backward(const Call& call, Launcher& launcher) {
  const Tensor &y = call.input(0), &dy = call.input(1), &dx = call.output(0);
  for_each_row_part(y, {&y, &dy, &dx}, [&](const Shape& rows, const View* v) {
    SoftmaxParams p{};
    p.rows = rows;
    p.x = v[0];
    p.mask = v[1];
    p.y = v[2];
    p.n = static_cast<uint>(y.last());
    p.scale = call.number(QUERN_KEY_SCALE);
    launcher.launch("softmax", launcher.row_threads(y.last()), launcher.rows(rows.count), p, {1});
  });
}

}  // namespace

const Op softmax_backward_op = offer(QUERN_OP_SOFTMAX_BACKWARD, "softmax_backward.vulkan", nullptr, emit_softmax_backward);

}  // namespace quern::vulkan
