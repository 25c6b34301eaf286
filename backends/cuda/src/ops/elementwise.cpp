// add, sub, mul, div; scale, neg, sqr, sqrt, abs, clamp; fill. Any strides.
#include "../kernels/elementwise.hpp"

#include "strided.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

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

void emit_binary(const Call& call, Launcher& launcher) {
  BinaryParams p{};
  p.shape = walk_steps(call.output(0), {{call.input(0), p.a}, {call.input(1), p.b}, {call.output(0), p.y}});
  p.op = static_cast<int>(call.op);
  p.alpha = call.op == QUERN_OP_ADD ? static_cast<float>(call.real(QUERN_KEY_ALPHA)) : 1.0f;
  launcher.launch(kernels::binary, launcher.spread(p.shape.count), 256, p);
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
    {QUERN_OP_ADD, "add.cuda", nullptr, emit_binary},    {QUERN_OP_SUB, "sub.cuda", nullptr, emit_binary},
    {QUERN_OP_MUL, "mul.cuda", nullptr, emit_binary},    {QUERN_OP_DIV, "div.cuda", nullptr, emit_binary},
    {QUERN_OP_SCALE, "scale.cuda", nullptr, emit_unary}, {QUERN_OP_NEG, "neg.cuda", nullptr, emit_unary},
    {QUERN_OP_SQR, "sqr.cuda", nullptr, emit_unary},     {QUERN_OP_SQRT, "sqrt.cuda", nullptr, emit_unary},
    {QUERN_OP_ABS, "abs.cuda", nullptr, emit_unary},     {QUERN_OP_CLAMP, "clamp.cuda", nullptr, emit_unary},
    {QUERN_OP_FILL, "fill.cuda", nullptr, emit_fill},
};

}  // namespace

const std::span<const Op> elementwise_ops = table;

}  // namespace quern::cuda
