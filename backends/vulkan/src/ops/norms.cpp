// See norms.hpp.
#include "norms.hpp"
#include "../views.hpp"

namespace quern::vulkan {

std::string refuse_norm(const Call& call) {
  const std::size_t first = call.op == QUERN_OP_ADD_RMS_NORM ? 2 : 1;
  return first_of({check_contiguous(call.input(first)), check_contiguous(call.input(first + 1))});
}

void launch_norm(const Call& call, const Tensor& b, const Tensor& sum, const Tensor& weight, const Tensor& bias, const Tensor& y,
                 std::int32_t kind, Launcher& launcher) {
  const Tensor& x = call.input(0);
  for_each_row_part(x, {&x, &b, &sum, &y}, [&](const Shape& rows, const View* v) {
    NormParams p{rows, v[0], v[1], v[2], v[3], weight.data, bias.data, static_cast<uint>(x.last()), call.number(QUERN_KEY_EPSILON), 0, 0};
    if (kind == norm_rms || kind == norm_add_rms) p.offset = call.number(QUERN_KEY_WEIGHT_OFFSET);
    launcher.launch("norm", launcher.row_threads(x.last()), launcher.rows(rows.count), p, {kind});
  });
}

}  // namespace quern::vulkan
