// See norms.hpp.
#include "norms.hpp"

#include "../kernels/norm.hpp"
#include "strided.hpp"

namespace quern::cuda {
namespace {

bool adds(const Call& call) { return call.op == QUERN_OP_ADD_RMS_NORM; }

}  // namespace

std::string refuse_norm(const Call& call) {
  const std::size_t first = adds(call) ? 2 : 1;
  return first_of({check_contiguous(call.input(first)), check_contiguous(call.input(first + 1))});
}

void emit_norm(const Call& call, Launcher& launcher) {
  const Tensor& x = call.input(0);
  const Tensor absent;
  NormParams p{};
  p.rows = walk_rows(x, {{x, p.x},
                         {adds(call) ? call.input(1) : absent, p.b},
                         {adds(call) ? call.output(0) : absent, p.sum},
                         {call.output(adds(call) ? 1 : 0), p.y}});
  p.weight = call.op == QUERN_OP_L2_NORM ? 0 : call.input(adds(call) ? 2 : 1).data;
  p.bias = call.op == QUERN_OP_LAYER_NORM ? call.input(2).data : 0;
  p.kind = norm_kind(call.op);
  p.h = x.last();
  p.epsilon = static_cast<float>(call.real(QUERN_KEY_EPSILON));
  p.offset = call.op == QUERN_OP_RMS_NORM || adds(call) ? static_cast<float>(call.real(QUERN_KEY_WEIGHT_OFFSET)) : 0.0f;
  const bool wide = p.h > 1024;  // by the row's length alone: its bits may not depend on the number of rows
  launcher.launch(wide ? kernels::norm_1024 : kernels::norm_256, {p.rows.count, 1, 1}, wide ? 1024 : p.h > 128 ? 256 : 32, p);
}

void launch_norm_row(const RowParams& p, std::int64_t rows, Launcher& launcher) {
  const auto shared = static_cast<unsigned>((p.h + 1023) / 1024 * 4096);
  launcher.launch(kernels::norm_row, {rows, 1, 1}, 256, p, shared);
}

int norm_kind(std::uint32_t op) {
  switch (op) {
    case QUERN_OP_LAYER_NORM:
    case QUERN_OP_LAYER_NORM_BACKWARD: return norm_layer;
    case QUERN_OP_L2_NORM:
    case QUERN_OP_L2_NORM_BACKWARD: return norm_l2;
    default: return norm_rms;
  }
}

}  // namespace quern::cuda
