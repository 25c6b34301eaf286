// add, sub, mul, div; scale, neg, sqr, sqrt, abs, clamp; activations; glu; fill. Any strides.
#include "tables.hpp"

namespace quern::cuda {
namespace {

std::string refuse_unary(const Call& call) {
  const Tensor &x = call.input(0), &y = call.output(0);
  return first_of({check_floats(x), check_floats(y), check_same(x, y)});
}

void emit_unary(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), &y = call.output(0);
  UnaryParams p{view_of(x), view_of(y), static_cast<int>(call.op), 0, 0, y.elements()};
  if (call.op == QUERN_OP_SCALE) {
    p.a = static_cast<float>(call.real(QUERN_KEY_ALPHA));
    p.b = static_cast<float>(call.real(QUERN_KEY_BETA));
  } else if (call.op == QUERN_OP_CLAMP) {
    p.a = static_cast<float>(call.real(QUERN_KEY_MIN));
    p.b = static_cast<float>(call.real(QUERN_KEY_MAX));
  } else if (call.op == QUERN_OP_GELU) {
    p.a = static_cast<float>(call.integer(QUERN_KEY_KIND));
  }
  launcher.launch("elementwise", "unary", launcher.spread(p.count), 256, p);
}

std::string refuse_gelu(const Call& call) {
  const std::int64_t kind = call.integer(QUERN_KEY_KIND);
  if (kind < 0 || kind > 2) return concat("gelu has the kinds 0 to 2, not ", kind);
  return refuse_unary(call);
}

std::string refuse_binary(const Call& call) {
  const Tensor &a = call.input(0), &b = call.input(1), &y = call.output(0);
  if (!broadcasts(b, y)) return concat(describe(b), " does not broadcast to ", describe(y));
  return first_of({check_floats(a), check_floats(b), check_floats(y), check_same(a, y)});
}

void emit_binary(const Call& call, Launcher& launcher) {
  const Tensor& y = call.output(0);
  const float alpha = call.op == QUERN_OP_ADD ? static_cast<float>(call.real(QUERN_KEY_ALPHA)) : 1.0f;
  const BinaryParams p{view_of(call.input(0)), view_of(call.input(1)), view_of(y), static_cast<int>(call.op), alpha, y.elements()};
  launcher.launch("elementwise", "binary", launcher.spread(p.count), 256, p);
}

std::string refuse_glu(const Call& call) {
  const Tensor &gate = call.input(0), &up = call.input(1), &y = call.output(0);
  const std::int64_t kind = call.integer(QUERN_KEY_KIND);
  if (kind < 0 || kind > 4) return concat("glu has the kinds 0 to 4, not ", kind);
  if (y.rank == 0) return "glu needs at least one dimension";
  if (up.present()) return first_of({check_floats(gate), check_floats(up), check_floats(y), check_same(gate, y), check_same(up, y)});
  std::string reason = first_of({check_floats(gate), check_floats(y), check_rank(gate, y.rank), check_dim(gate, y.rank - 1, 2 * y.last())});
  for (std::uint32_t d = 0; reason.empty() && d + 1 < y.rank; ++d) reason = check_dim(gate, d, y.dims[d]);
  return reason;
}

void emit_glu(const Call& call, Launcher& launcher) {
  const Tensor& y = call.output(0);
  GluParams p{};
  p.gate = view_of(call.input(0));
  p.up = view_of(call.input(1));
  p.y = view_of(y);
  p.kind = static_cast<int>(call.integer(QUERN_KEY_KIND));
  p.swapped = call.integer(QUERN_KEY_SWAPPED) != 0;
  p.alpha = static_cast<float>(call.real(QUERN_KEY_ALPHA));
  p.limit = static_cast<float>(call.real(QUERN_KEY_LIMIT));
  p.count = y.elements();
  launcher.launch("elementwise", "glu", launcher.spread(p.count), 256, p);
}

std::string refuse_fill(const Call& call) {
  const Tensor& y = call.output(0);
  return y.dtype == QUERN_I32 ? "" : check_floats(y);
}

void emit_fill(const Call& call, Launcher& launcher) {
  const Tensor& y = call.output(0);
  const double value = call.real(QUERN_KEY_VALUE);
  const FillParams p{view_of(y), static_cast<float>(value), static_cast<int>(value), y.elements()};
  launcher.launch("elementwise", "fill", launcher.spread(p.count), 256, p);
}

constexpr Op table[] = {
    {QUERN_OP_ADD, "add.cuda", refuse_binary, emit_binary},       {QUERN_OP_SUB, "sub.cuda", refuse_binary, emit_binary},
    {QUERN_OP_MUL, "mul.cuda", refuse_binary, emit_binary},       {QUERN_OP_DIV, "div.cuda", refuse_binary, emit_binary},
    {QUERN_OP_SCALE, "scale.cuda", refuse_unary, emit_unary},     {QUERN_OP_NEG, "neg.cuda", refuse_unary, emit_unary},
    {QUERN_OP_SQR, "sqr.cuda", refuse_unary, emit_unary},         {QUERN_OP_SQRT, "sqrt.cuda", refuse_unary, emit_unary},
    {QUERN_OP_ABS, "abs.cuda", refuse_unary, emit_unary},         {QUERN_OP_CLAMP, "clamp.cuda", refuse_unary, emit_unary},
    {QUERN_OP_SILU, "silu.cuda", refuse_unary, emit_unary},       {QUERN_OP_GELU, "gelu.cuda", refuse_gelu, emit_unary},
    {QUERN_OP_RELU, "relu.cuda", refuse_unary, emit_unary},       {QUERN_OP_RELU_SQR, "relu_sqr.cuda", refuse_unary, emit_unary},
    {QUERN_OP_SIGMOID, "sigmoid.cuda", refuse_unary, emit_unary}, {QUERN_OP_TANH, "tanh.cuda", refuse_unary, emit_unary},
    {QUERN_OP_GLU, "glu.cuda", refuse_glu, emit_glu},             {QUERN_OP_FILL, "fill.cuda", refuse_fill, emit_fill},
};

}  // namespace

const std::span<const Op> elementwise_ops = table;

}  // namespace quern::cuda
