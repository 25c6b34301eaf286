// dx = dy * f'(x) for the activations. silu is vectorised; the others use the C library's functions.
#include "map_rows.hpp"
#include "slopes.hpp"

namespace quern::cpu {
namespace {

enum { gelu_erf = 0, gelu_tanh = 1, gelu_quick = 2 };

template <Isa isa>
void run_silu(const Call& call, Context& context) noexcept {
  const Vectors& vectors = vectors_of(isa);
  const Tensor &x = call.input(0), &dy = call.input(1), &dx = call.output(0);
  constexpr std::int64_t part = 1024;  // long rows are cut, so that one row keeps every thread busy
  const std::int64_t n = x.last(), parts = (n + part - 1) / part;
  context.parallel(x.rows() * parts, rows_a_part(std::min(n, part)), [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    float at[part], gradient[part];
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i / parts, first = i % parts * part, count = std::min(part, n - first);
      float* to = output_part(dx, row, first, at);
      vectors.silu_backward(part_floats(vectors, x, row, first, count, at), part_floats(vectors, dy, row, first, count, gradient), count,
                            to);
      finish_part(vectors, dx, row, first, count, to, at);
    }
  });
}

template <typename F>
void run_slope(const Call& call, Context& context, const F& slope) noexcept {
  map_pairs(call.input(0), call.input(1), call.output(0), context, [&slope](float x, float dy) { return dy * slope(x); });
}

void run_gelu(const Call& call, Context& context) noexcept {
  switch (call.integer(QUERN_KEY_KIND)) {
    case gelu_quick: return run_slope(call, context, gelu_quick_slope);
    case gelu_tanh: return run_slope(call, context, gelu_tanh_slope);
    default: return run_slope(call, context, gelu_erf_slope);
  }
}
void run_relu(const Call& call, Context& context) noexcept {
  map_pairs(call.input(0), call.input(1), call.output(0), context, [](float x, float dy) { return x > 0.0f ? dy : 0.0f; });
}
void run_relu_sqr(const Call& call, Context& context) noexcept {
  map_pairs(call.input(0), call.input(1), call.output(0), context,
            [](float x, float dy) { return x <= 0.0f ? 0.0f : 2.0f * (x * dy); });  // 2 x alone may overflow
}
void run_sigmoid(const Call& call, Context& context) noexcept { run_slope(call, context, sigmoid_slope); }
void run_tanh(const Call& call, Context& context) noexcept { run_slope(call, context, tanh_slope); }

constexpr Kernel kernels[] = {
    QUERN_CPU_KERNELS(QUERN_OP_SILU_BACKWARD, "silu_backward", accepts_any, run_silu, nullptr, false),
    {QUERN_OP_GELU_BACKWARD, "gelu_backward.portable", Isa::baseline, accepts_any, run_gelu},
    {QUERN_OP_RELU_BACKWARD, "relu_backward.portable", Isa::baseline, accepts_any, run_relu},
    {QUERN_OP_RELU_SQR_BACKWARD, "relu_sqr_backward.portable", Isa::baseline, accepts_any, run_relu_sqr},
    {QUERN_OP_SIGMOID_BACKWARD, "sigmoid_backward.portable", Isa::baseline, accepts_any, run_sigmoid},
    {QUERN_OP_TANH_BACKWARD, "tanh_backward.portable", Isa::baseline, accepts_any, run_tanh},
};

}  // namespace

const std::span<const Kernel> activation_backward_kernels = kernels;

}  // namespace quern::cpu
