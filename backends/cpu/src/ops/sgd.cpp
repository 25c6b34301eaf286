// w -= lr * (d + weight_decay * w), d the gradient or, where there is a momentum, momentum = factor * momentum + gradient.
#include "optimiser_rows.hpp"

namespace quern::cpu {
namespace {

void run_sgd(const Call& call, Context& context) noexcept {
  const Vectors& vectors = portable::vectors;
  Tensor gradient = call.input(0), w = call.output(0), momentum = call.output(1);
  const float lr = load_scalar(call.input(1), 0), scale = call.input(2).present() ? load_scalar(call.input(2), 0) : 1.0f;
  const auto factor = static_cast<float>(call.real(QUERN_KEY_MOMENTUM)), decay = static_cast<float>(call.real(QUERN_KEY_WEIGHT_DECAY));
  make_rows({&gradient, &w, &momentum}, call.predicate.present());
  each_state_part(call, gradient, context, [&](std::int64_t row, std::int64_t first, std::int64_t count) {
    float step[state_part], w_buffer[state_part], momentum_buffer[state_part];
    load_row(gradient, row, first, count, step);
    for (std::int64_t i = 0; i < count; ++i) step[i] *= scale;
    if (momentum.present()) {
      const StatePart average(vectors, momentum, row, first, count, momentum_buffer);
      float* at = average.data();
      if (factor != 0.0f)
        for (std::int64_t i = 0; i < count; ++i) step[i] += factor * at[i];
      std::copy_n(step, count, at);
      average.store();
    }
    const StatePart weights(vectors, w, row, first, count, w_buffer);
    float* at = weights.data();
    if (decay != 0.0f)
      for (std::int64_t i = 0; i < count; ++i) step[i] += decay * at[i];
    for (std::int64_t i = 0; i < count; ++i) at[i] -= lr * step[i];
    weights.store();
  });
}

constexpr Kernel kernels_sgd[] = {{QUERN_OP_SGD, "sgd.portable", Isa::baseline, accepts_any, run_sgd, nullptr, true}};

}  // namespace

const std::span<const Kernel> sgd_kernels = kernels_sgd;

}  // namespace quern::cpu
