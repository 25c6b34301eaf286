// rms_norm, layer_norm, l2_norm, add_rms_norm, over rows that lie anywhere.
#include "norm.hpp"

#include "../kernels/norm.hpp"
#include "strided.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

bool adds(const Call& call) { return call.op == QUERN_OP_ADD_RMS_NORM; }

std::string refuse(const Call& call) {
  const Tensor& x = call.input(0);
  if (x.rank == 0) return "a norm needs at least one dimension";
  if (call.op != QUERN_OP_L2_NORM && !(call.real(QUERN_KEY_EPSILON) > 0)) return "epsilon must be above 0";
  for (const Tensor& y : call.outputs)
    if (std::string r = first_of({check_floats(y), check_same_shape(x, y)}); !r.empty()) return r;
  if (adds(call))
    if (std::string r = first_of({check_floats(call.input(1)), check_same_shape(x, call.input(1))}); !r.empty()) return r;
  return first_of({check_floats(x), check_factor(call.input(adds(call) ? 2 : 1), x), adds(call) ? "" : check_factor(call.input(2), x)});
}

void emit(const Call& call, Launcher& launcher) {
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

constexpr Op table[] = {{QUERN_OP_RMS_NORM, "rms_norm.cuda", refuse, emit, nullptr, false, all_packed},
                        {QUERN_OP_LAYER_NORM, "layer_norm.cuda", refuse, emit, nullptr, false, all_packed},
                        {QUERN_OP_L2_NORM, "l2_norm.cuda", refuse, emit, nullptr, false, all_packed},
                        {QUERN_OP_ADD_RMS_NORM, "add_rms_norm.cuda", refuse, emit, nullptr, false, all_packed}};

}  // namespace

const std::span<const Op> norm_ops = table;

std::string check_factor(const Tensor& t, const Tensor& x) {
  if (!t.present()) return {};
  return first_of({check_dtype(t, QUERN_F32), check_rank(t, 1), check_contiguous(t), check_dim(t, 0, x.last())});
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
