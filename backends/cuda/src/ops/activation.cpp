// silu, gelu, relu, relu_sqr, sigmoid, tanh, glu, and their gradients. Any strides.
#include "../kernels/elementwise.hpp"

#include "strided.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_activation(const Call& call, Launcher& launcher) {
  UnaryParams p{};
  p.shape = walk_steps(call.output(0), {{call.input(0), p.x}, {call.output(0), p.y}});
  p.op = static_cast<int>(call.op);
  if (call.op == QUERN_OP_GELU) p.a = static_cast<float>(call.integer(QUERN_KEY_KIND));
  launcher.launch(kernels::activation, launcher.spread(p.shape.count), 256, p);
}

void emit_backward(const Call& call, Launcher& launcher) {
  ActivationBackwardParams p{};
  p.shape = walk_steps(call.output(0), {{call.input(0), p.x}, {call.input(1), p.dy}, {call.output(0), p.dx}});
  p.op = static_cast<int>(call.op);
  if (call.op == QUERN_OP_GELU_BACKWARD) p.kind = static_cast<int>(call.integer(QUERN_KEY_KIND));
  launcher.launch(kernels::activation_backward, launcher.spread(p.shape.count), 256, p);
}

/// The first or second half of the rows of a tensor of 2 n elements a row.
Tensor half_of(const Tensor& t, bool second) {
  Tensor half = t;
  half.dims[t.rank - 1] /= 2;
  if (second) half.data += static_cast<Address>(half.last() * t.strides[t.rank - 1]);
  return half;
}
/// silu and its slope take alpha under a limit only.
template <class Params>
void read_attributes(const Call& call, Params& p) {
  p.kind = static_cast<int>(call.integer(QUERN_KEY_KIND));
  p.limit = static_cast<float>(call.real(QUERN_KEY_LIMIT));
  p.alpha = p.limit < std::numeric_limits<float>::infinity() ? static_cast<float>(call.real(QUERN_KEY_ALPHA)) : 1.0f;
}

void emit_glu(const Call& call, Launcher& launcher) {
  const Tensor &gate = call.input(0), &up = call.input(1), &y = call.output(0);
  const bool swapped = call.integer(QUERN_KEY_SWAPPED) != 0, split = up.present();
  GluParams p{};
  p.shape = walk_steps(y, {{split ? gate : half_of(gate, swapped), p.gate}, {split ? up : half_of(gate, !swapped), p.up}, {y, p.y}});
  read_attributes(call, p);
  launcher.launch(kernels::glu, launcher.spread(p.shape.count), 256, p);
}

void emit_glu_backward(const Call& call, Launcher& launcher) {
  const Tensor &gate = call.input(0), &up = call.input(1), &dy = call.input(2), &dgate = call.output(0), &dup = call.output(1);
  const bool swapped = call.integer(QUERN_KEY_SWAPPED) != 0, split = up.present();
  GluBackwardParams p{};
  p.shape = walk_steps(dy, {{split ? gate : half_of(gate, swapped), p.gate},
                            {split ? up : half_of(gate, !swapped), p.up},
                            {dy, p.dy},
                            {split ? dgate : half_of(dgate, swapped), p.dgate},
                            {split ? dup : half_of(dgate, !swapped), p.dup}});
  read_attributes(call, p);
  launcher.launch(kernels::glu_backward, launcher.spread(p.shape.count), 256, p);
}

constexpr Op table[] = {
    {QUERN_OP_SILU, "silu.cuda", nullptr, emit_activation},
    {QUERN_OP_GELU, "gelu.cuda", nullptr, emit_activation},
    {QUERN_OP_RELU, "relu.cuda", nullptr, emit_activation},
    {QUERN_OP_RELU_SQR, "relu_sqr.cuda", nullptr, emit_activation},
    {QUERN_OP_SIGMOID, "sigmoid.cuda", nullptr, emit_activation},
    {QUERN_OP_TANH, "tanh.cuda", nullptr, emit_activation},
    {QUERN_OP_GLU, "glu.cuda", nullptr, emit_glu},
    {QUERN_OP_SILU_BACKWARD, "silu_backward.cuda", nullptr, emit_backward},
    {QUERN_OP_GELU_BACKWARD, "gelu_backward.cuda", nullptr, emit_backward},
    {QUERN_OP_RELU_BACKWARD, "relu_backward.cuda", nullptr, emit_backward},
    {QUERN_OP_RELU_SQR_BACKWARD, "relu_sqr_backward.cuda", nullptr, emit_backward},
    {QUERN_OP_SIGMOID_BACKWARD, "sigmoid_backward.cuda", nullptr, emit_backward},
    {QUERN_OP_TANH_BACKWARD, "tanh_backward.cuda", nullptr, emit_backward},
    {QUERN_OP_GLU_BACKWARD, "glu_backward.cuda", nullptr, emit_glu_backward},
};

}  // namespace

const std::span<const Op> activation_ops = table;

}  // namespace quern::cuda
