// add, sub, mul, div; scale, neg, sqr, sqrt, abs, clamp; fill. Any strides.
#include "../kernels/elementwise.hpp"

#include "strided.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

std::string refuse_unary(const Call& call) {
  const Tensor &x = call.input(0), &y = call.output(0);
  return first_of({check_floats(x), check_floats(y), check_same_shape(x, y)});
}

void emit_unary(const Call& call, Launcher& launcher) {
  UnaryParams p{};
  p.shape = walk_steps(call.output(0), {{call.input(0), p.x}, {call.output(0), p.y}});
  p.op = static_cast<int>(call.op);
  if (call.op == QUERN_OP_SCALE) {
    p.a = static_cast<float>(call.real(QUERN_KEY_ALPHA));
    p.b = static_cast<float>(call.real(QUERN_KEY_BETA));
  } else if (call.op == QUERN_OP_CLAMP) {
    p.a = static_cast<float>(call.real(QUERN_KEY_MIN));
    p.b = static_cast<float>(call.real(QUERN_KEY_MAX));
  }
  launcher.launch(kernels::unary, launcher.spread(p.shape.count), 256, p);
}

std::string refuse_binary(const Call& call) {
  const Tensor &a = call.input(0), &b = call.input(1), &y = call.output(0);
  if (!broadcasts(b, y)) return concat(describe(b), " does not broadcast to ", describe(y));
  return first_of({check_floats(a), check_floats(b), check_floats(y), check_same_shape(a, y)});
}

void emit_binary(const Call& call, Launcher& launcher) {
  BinaryParams p{};
  p.shape = walk_steps(call.output(0), {{call.input(0), p.a}, {call.input(1), p.b}, {call.output(0), p.y}});
  p.op = static_cast<int>(call.op);
  p.alpha = call.op == QUERN_OP_ADD ? static_cast<float>(call.real(QUERN_KEY_ALPHA)) : 1.0f;
  launcher.launch(kernels::binary, launcher.spread(p.shape.count), 256, p);
}

std::string refuse_fill(const Call& call) {
  const Tensor& y = call.output(0);
  return y.dtype == QUERN_I32 ? "" : check_floats(y);
}

void emit_fill(const Call& call, Launcher& launcher) {
  const double value = call.real(QUERN_KEY_VALUE);
  FillParams p{};
  p.shape = walk_elements(call.output(0), {{call.output(0), p.y}});
  p.value = static_cast<float>(value);
  p.integer = static_cast<int>(value);
  launcher.launch(kernels::fill, launcher.spread(p.shape.count), 256, p);
}

constexpr Op table[] = {
    {QUERN_OP_ADD, "add.cuda", refuse_binary, emit_binary},   {QUERN_OP_SUB, "sub.cuda", refuse_binary, emit_binary},
    {QUERN_OP_MUL, "mul.cuda", refuse_binary, emit_binary},   {QUERN_OP_DIV, "div.cuda", refuse_binary, emit_binary},
    {QUERN_OP_SCALE, "scale.cuda", refuse_unary, emit_unary}, {QUERN_OP_NEG, "neg.cuda", refuse_unary, emit_unary},
    {QUERN_OP_SQR, "sqr.cuda", refuse_unary, emit_unary},     {QUERN_OP_SQRT, "sqrt.cuda", refuse_unary, emit_unary},
    {QUERN_OP_ABS, "abs.cuda", refuse_unary, emit_unary},     {QUERN_OP_CLAMP, "clamp.cuda", refuse_unary, emit_unary},
    {QUERN_OP_FILL, "fill.cuda", refuse_fill, emit_fill},
};

}  // namespace

const std::span<const Op> elementwise_ops = table;

}  // namespace quern::cuda
