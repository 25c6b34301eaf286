// One step of AdamW: m and v follow the gradient, and w (or master, which w then repeats) follows them.
//
// A step below 1 has no bias correction: nothing is written, and NON_FINITE is raised.
#include "optimiser_rows.hpp"

#include <cmath>

namespace quern::cpu {
namespace {

/// The settings of this step; they go to f32 once.
AdamwRow settings_of(const Call& call, double step) noexcept {
  const double beta1 = call.real(QUERN_KEY_BETA1), beta2 = call.real(QUERN_KEY_BETA2);
  const auto lr = static_cast<double>(load_scalar(call.input(2), 0));
  AdamwRow s{};
  s.scale = call.input(3).present() ? load_scalar(call.input(3), 0) : 1.0f;
  s.beta1 = static_cast<float>(beta1);
  s.rest1 = static_cast<float>(1.0 - beta1);
  s.beta2 = static_cast<float>(beta2);
  s.rest2 = static_cast<float>(1.0 - beta2);
  s.rate = static_cast<float>(lr / -std::expm1(step * std::log(beta1)));
  s.root = static_cast<float>(1.0 / std::sqrt(-std::expm1(step * std::log(beta2))));
  s.epsilon = static_cast<float>(call.real(QUERN_KEY_EPSILON));
  s.decay = static_cast<float>(lr * call.real(QUERN_KEY_WEIGHT_DECAY));
  return s;
}

template <Isa isa>
void run_adamw(const Call& call, Context& context) noexcept {
  const Vectors& vectors = vectors_of(isa);
  const std::int64_t step = load_integer(call.input(1), 0);
  if (step < 1) return context.fault(QUERN_FAULT_NON_FINITE);
  const AdamwRow settings = settings_of(call, static_cast<double>(step));
  Tensor gradient = call.input(0), w = call.output(0), m = call.output(1), v = call.output(2), master = call.output(3);
  make_rows({&gradient, &w, &m, &v, &master}, call.predicate.present());
  each_state_part(call, gradient, context, [&](std::int64_t row, std::int64_t first, std::int64_t count) {
    float buffers[4][state_part];
    const StatePart exact(vectors, master.present() ? master : w, row, first, count, buffers[0]),
        mean(vectors, m, row, first, count, buffers[1]), square(vectors, v, row, first, count, buffers[2]);
    AdamwRow part = settings;
    part.gradient = part_floats(vectors, gradient, row, first, count, buffers[3]);
    part.w = exact.data();
    part.m = mean.data();
    part.v = square.data();
    part.n = count;
    vectors.adamw(part);
    exact.store();
    mean.store();
    square.store();
    if (master.present()) finish_part(vectors, w, row, first, count, exact.data(), exact.data());
  });
}

constexpr Kernel kernels_adamw[] = {QUERN_CPU_KERNELS(QUERN_OP_ADAMW, "adamw", accepts_any, run_adamw, nullptr, true)};

}  // namespace

const std::span<const Kernel> adamw_kernels = kernels_adamw;

}  // namespace quern::cpu
