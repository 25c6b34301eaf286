// adamw, sgd, clip_scale.
#include "../kernels/optimiser.hpp"

#include "strided.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

OptimiserParams params_of(const Call& call, const Tensor& v, const Tensor& master, Launcher& launcher) {
  const Tensor& gradient = call.input(0);
  OptimiserParams p{};
  p.shape = walk_elements(gradient, {{gradient, p.gradient}, {call.output(0), p.w}, {call.output(1), p.m}, {v, p.v}, {master, p.master}});
  p.decay = static_cast<float>(call.real(QUERN_KEY_WEIGHT_DECAY));
  p.live = live_of(call);
  p.elements_a_row = gradient.rank == 0 || gradient.dims[0] == 0 ? 1 : std::max<std::int64_t>(1, gradient.elements() / gradient.dims[0]);
  p.faults = launcher.faults();
  return p;
}

void emit_adamw(const Call& call, Launcher& launcher) {
  OptimiserParams p = params_of(call, call.output(2), call.output(3), launcher);
  p.step = call.input(1).data;
  p.lr = call.input(2).data;
  p.scale = call.input(3).data;
  p.beta1 = call.real(QUERN_KEY_BETA1);
  p.beta2 = call.real(QUERN_KEY_BETA2);
  p.epsilon = call.real(QUERN_KEY_EPSILON);
  launcher.launch(kernels::adamw, launcher.spread(p.shape.count), 256, p);
}

void emit_sgd(const Call& call, Launcher& launcher) {
  OptimiserParams p = params_of(call, {}, {}, launcher);
  p.lr = call.input(1).data;
  p.scale = call.input(2).data;
  p.momentum = static_cast<float>(call.real(QUERN_KEY_MOMENTUM));
  launcher.launch(kernels::sgd, launcher.spread(p.shape.count), 256, p);
}

void emit_clip(const Call& call, Launcher& launcher) {
  const ClipParams p{call.input(0).data, call.input(1).data, call.output(0).data, static_cast<float>(call.real(QUERN_KEY_MAX_NORM))};
  launcher.launch(kernels::clip_scale, {1, 1, 1}, 32, p);
}

constexpr Op table[] = {{QUERN_OP_ADAMW, "adamw.cuda", nullptr, emit_adamw, nullptr, true},
                        {QUERN_OP_SGD, "sgd.cuda", nullptr, emit_sgd, nullptr, true},
                        {QUERN_OP_CLIP_SCALE, "clip_scale.cuda", nullptr, emit_clip}};

}  // namespace

const std::span<const Op> optimiser_ops = table;

}  // namespace quern::cuda
