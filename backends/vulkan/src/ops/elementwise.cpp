// Ops of one element at a time: arithmetic, activations and their gradients, fill, casts between plain types.
#include "elementwise.hpp"
#include "tables.hpp"

#include <bit>
#include <cmath>
#include <cstring>

namespace quern::vulkan {
namespace {

// As in shaders/elementwise.comp and shaders/activations.glsl.
constexpr std::int32_t activate = 100, slope = 101;
constexpr std::int32_t silu = 0, gelu_erf = 1, gelu_tanh = 2, relu = 3, sigmoid = 4, gelu_quick = 5, relu_sqr = 6, tanh_kind = 7;

std::int32_t kind_of(const Call& call) {
  switch (call.op) {
    case QUERN_OP_GELU:
    case QUERN_OP_GELU_BACKWARD: {
      constexpr std::int32_t kinds[] = {gelu_erf, gelu_tanh, gelu_quick};
      return kinds[call.integer(QUERN_KEY_KIND)];
    }
    case QUERN_OP_RELU:
    case QUERN_OP_RELU_BACKWARD: return relu;
    case QUERN_OP_RELU_SQR:
    case QUERN_OP_RELU_SQR_BACKWARD: return relu_sqr;
    case QUERN_OP_SIGMOID:
    case QUERN_OP_SIGMOID_BACKWARD: return sigmoid;
    case QUERN_OP_TANH:
    case QUERN_OP_TANH_BACKWARD: return tanh_kind;
    default: return silu;
  }
}

void launch(const Tensor& a, const Tensor& b, const Tensor& y, float s, float t, std::int32_t op, std::int32_t kind, Launcher& launcher) {
  for_each_part(y, {&a, &b, &y}, [&](const Shape& shape, const View* v) {
    const ElementwiseParams p{shape, v[0], v[1], v[2], s, t};
    launcher.launch("elementwise", launcher.item_threads(), launcher.spread(shape.count), p, {op, kind});
  });
}

void emit_unary(const Call& call, Launcher& launcher) {
  float s = 1, t = 0;
  if (call.op == QUERN_OP_SCALE) {
    s = call.number(QUERN_KEY_ALPHA);
    t = call.number(QUERN_KEY_BETA);
  } else if (call.op == QUERN_OP_CLAMP) {
    s = call.number(QUERN_KEY_MIN);
    t = call.number(QUERN_KEY_MAX);
  }
  launch(call.input(0), {}, call.output(0), s, t, static_cast<std::int32_t>(call.op), 0, launcher);
}

void emit_binary(const Call& call, Launcher& launcher) {
  const float alpha = call.op == QUERN_OP_ADD ? call.number(QUERN_KEY_ALPHA) : 1.0f;
  launch(call.input(0), call.input(1), call.output(0), alpha, 0, static_cast<std::int32_t>(call.op), 0, launcher);
}

void emit_activation(const Call& call, Launcher& launcher) {
  launch(call.input(0), {}, call.output(0), 1, 0, activate, kind_of(call), launcher);
}

void emit_slope(const Call& call, Launcher& launcher) {
  launch(call.input(0), call.input(1), call.output(0), 1, 0, slope, kind_of(call), launcher);
}

/// The bits of an attribute in the dtype of an element.
std::uint32_t bits_of(double value, quern_dtype dtype) {
  if (dtype == QUERN_I32) {
    const double cut = std::fmin(std::fmax(value, -2147483648.0), 2147483647.0);
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(cut));
  }
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (dtype == QUERN_F32) return bits;
  if (dtype == QUERN_BF16) return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  const std::uint32_t sign = bits >> 16 & 0x8000u, a = bits & 0x7fffffffu;
  if (a >= 0x477ff000u) return sign | 0x7c00u;
  if (a >= 0x38800000u) return sign | (a - 0x38000000u + 0xfffu + (a >> 13 & 1u)) >> 13;
  return sign | static_cast<std::uint32_t>(std::nearbyint(std::ldexp(static_cast<double>(std::bit_cast<float>(a)), 24)));  // subnormal
}

void emit_fill(const Call& call, Launcher& launcher) { fill_view(call.output(0), call.real(QUERN_KEY_VALUE), launcher); }

// Of glu: without up, gate holds both factors one after the other in each row.
struct Factors {
  Tensor gate, up, dgate, dup;
};
Tensor half(const Tensor& t, bool second) {
  Tensor h = t;
  if (h.rank == 0) return h;
  h.dims[h.rank - 1] /= 2;
  if (second) h.data += static_cast<std::uint64_t>(h.dims[h.rank - 1] * h.strides[h.rank - 1]);
  return h;
}
Factors factors_of(const Call& call, const Tensor& dgate, const Tensor& dup) {
  const Tensor &gate = call.input(0), &up = call.input(1);
  if (up.present()) return {gate, up, dgate, dup};
  const bool swapped = call.flag(QUERN_KEY_SWAPPED);
  return {half(gate, swapped), half(gate, !swapped), half(dgate, swapped), half(dgate, !swapped)};
}
void launch_glu(const Call& call, const Factors& f, const Tensor& y, bool backward, Launcher& launcher) {
  for_each_part(y, {&f.gate, &f.up, &y, &f.dgate, &f.dup}, [&](const Shape& shape, const View* v) {
    const float limit = call.number(QUERN_KEY_LIMIT);
    const GluParams p{shape, v[0], v[1], v[2], v[3], v[4], call.number(QUERN_KEY_ALPHA), limit, std::isfinite(limit) ? 1 : 0, 0};
    launcher.launch("glu", launcher.item_threads(), launcher.spread(shape.count), p,
                    {static_cast<std::int32_t>(call.integer(QUERN_KEY_KIND)), backward ? 1 : 0});
  });
}

void emit_glu(const Call& call, Launcher& launcher) { launch_glu(call, factors_of(call, {}, {}), call.output(0), false, launcher); }

void emit_glu_backward(const Call& call, Launcher& launcher) {
  launch_glu(call, factors_of(call, call.output(0), call.output(1)), call.input(2), true, launcher);
}

constexpr Op elementwise_table[] = {
    offer(QUERN_OP_ADD, "add.vulkan", nullptr, emit_binary),
    offer(QUERN_OP_SUB, "sub.vulkan", nullptr, emit_binary),
    offer(QUERN_OP_MUL, "mul.vulkan", nullptr, emit_binary),
    offer(QUERN_OP_DIV, "div.vulkan", nullptr, emit_binary),
    offer(QUERN_OP_SCALE, "scale.vulkan", nullptr, emit_unary),
    offer(QUERN_OP_NEG, "neg.vulkan", nullptr, emit_unary),
    offer(QUERN_OP_SQR, "sqr.vulkan", nullptr, emit_unary),
    offer(QUERN_OP_SQRT, "sqrt.vulkan", nullptr, emit_unary),
    offer(QUERN_OP_ABS, "abs.vulkan", nullptr, emit_unary),
    offer(QUERN_OP_CLAMP, "clamp.vulkan", nullptr, emit_unary),
    offer(QUERN_OP_FILL, "fill.vulkan", nullptr, emit_fill),
    offer(QUERN_OP_SILU, "silu.vulkan", nullptr, emit_activation),
    offer(QUERN_OP_GELU, "gelu.vulkan", nullptr, emit_activation),
    offer(QUERN_OP_RELU, "relu.vulkan", nullptr, emit_activation),
    offer(QUERN_OP_RELU_SQR, "relu_sqr.vulkan", nullptr, emit_activation),
    offer(QUERN_OP_SIGMOID, "sigmoid.vulkan", nullptr, emit_activation),
    offer(QUERN_OP_TANH, "tanh.vulkan", nullptr, emit_activation),
    offer(QUERN_OP_GLU, "glu.vulkan", nullptr, emit_glu),
    offer(QUERN_OP_SILU_BACKWARD, "silu_backward.vulkan", nullptr, emit_slope),
    offer(QUERN_OP_GELU_BACKWARD, "gelu_backward.vulkan", nullptr, emit_slope),
    offer(QUERN_OP_RELU_BACKWARD, "relu_backward.vulkan", nullptr, emit_slope),
    offer(QUERN_OP_RELU_SQR_BACKWARD, "relu_sqr_backward.vulkan", nullptr, emit_slope),
    offer(QUERN_OP_SIGMOID_BACKWARD, "sigmoid_backward.vulkan", nullptr, emit_slope),
    offer(QUERN_OP_TANH_BACKWARD, "tanh_backward.vulkan", nullptr, emit_slope),
    offer(QUERN_OP_GLU_BACKWARD, "glu_backward.vulkan", nullptr, emit_glu_backward),
};

}  // namespace

void cast_view(const Tensor& x, const Tensor& y, Launcher& launcher) { launch(x, {}, y, 1, 0, QUERN_OP_CAST, 0, launcher); }

void fill_view(const Tensor& y, double value, Launcher& launcher) {
  for_each_part(y, {&y}, [&](const Shape& shape, const View* v) {
    const FillParams p{shape, v[0], bits_of(value, y.dtype), 0};
    launcher.launch("fill", launcher.item_threads(), launcher.spread(shape.count), p);
  });
}

const std::span<const Op> elementwise_ops = elementwise_table;

}  // namespace quern::vulkan
