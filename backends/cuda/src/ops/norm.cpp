// rms_norm, layer_norm, l2_norm, add_rms_norm: packed rows.
#include "tables.hpp"

namespace quern::cuda {
namespace {

std::string check_factor(const Tensor& t, const Tensor& x) {
  if (!t.present()) return {};
  return first_of({check_dtype(t, QUERN_F32), check_rank(t, 1), check_packed(t), check_dim(t, 0, x.last())});
}

std::string refuse(const Call& call) {
  const bool sum = call.op == QUERN_OP_ADD_RMS_NORM;
  const Tensor& x = call.input(0);
  if (x.rank == 0) return "a norm needs at least one dimension";
  if (call.op != QUERN_OP_L2_NORM && !(call.real(QUERN_KEY_EPSILON) > 0)) return "epsilon must be above 0";
  for (std::size_t o = 0; o < call.outputs.size(); ++o) {
    const Tensor& y = call.output(o);
    if (std::string r =
            first_of({check_same(x, y), check_packed(y),
                      y.dtype == x.dtype ? "" : concat(describe(y), " has the element type of x")});
        !r.empty())
      return r;
  }
  if (sum) {
    const Tensor& b = call.input(1);
    if (std::string r =
            first_of({check_same(x, b), check_packed(b),
                      b.dtype == x.dtype ? "" : concat(describe(b), " has the element type of a")});
        !r.empty())
      return r;
  }
  return first_of({check_floats(x), check_packed(x), check_factor(call.input(sum ? 2 : 1), x), sum ? "" : check_factor(call.input(2), x)});
}

void emit(const Call& call, Launcher& launcher) {
  const bool sum = call.op == QUERN_OP_ADD_RMS_NORM;
  const Tensor& x = call.input(0);
  NormParams p{};
  p.x = x.data;
  p.b = sum ? call.input(1).data : 0;
  p.weight = call.op == QUERN_OP_L2_NORM ? 0 : call.input(sum ? 2 : 1).data;
  p.bias = call.op == QUERN_OP_LAYER_NORM ? call.input(2).data : 0;
  p.sum = sum ? call.output(0).data : 0;
  p.y = call.output(sum ? 1 : 0).data;
  p.dtype = static_cast<int>(x.dtype);
  p.kind = call.op == QUERN_OP_LAYER_NORM ? 1 : call.op == QUERN_OP_L2_NORM ? 2 : 0;
  p.rows = x.rows();
  p.h = x.last();
  p.epsilon = static_cast<float>(call.real(QUERN_KEY_EPSILON));
  p.offset = call.op == QUERN_OP_RMS_NORM || sum ? static_cast<float>(call.real(QUERN_KEY_WEIGHT_OFFSET)) : 0.0f;
  const bool wide = p.h > 1024;  // by the row's length alone: its bits may not depend on the number of rows
  launcher.launch("norm", wide ? "norm_1024" : "norm_256", {p.rows, 1, 1}, wide ? 1024 : 256, p);
}

constexpr Op table[] = {{QUERN_OP_RMS_NORM, "rms_norm.cuda", refuse, emit},
                        {QUERN_OP_LAYER_NORM, "layer_norm.cuda", refuse, emit},
                        {QUERN_OP_L2_NORM, "l2_norm.cuda", refuse, emit},
                        {QUERN_OP_ADD_RMS_NORM, "add_rms_norm.cuda", refuse, emit}};

}  // namespace

const std::span<const Op> norm_ops = table;

}  // namespace quern::cuda
