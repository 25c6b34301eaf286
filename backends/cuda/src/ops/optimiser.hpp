// What adamw and sgd share.
#pragma once

#include "../kernels/optimiser.hpp"
#include "strided.hpp"

#include <algorithm>

namespace quern::cuda {

inline OptimiserParams optimiser_params(const Call& call, const Tensor& v, const Tensor& master, Launcher& launcher) {
  const Tensor& gradient = call.input(0);
  OptimiserParams p{};
  p.shape = walk_elements(gradient, {{gradient, p.gradient}, {call.output(0), p.w}, {call.output(1), p.m}, {v, p.v}, {master, p.master}});
  p.decay = static_cast<float>(call.real(QUERN_KEY_WEIGHT_DECAY));
  p.live = live_of(call);
  p.elements_a_row = gradient.rank == 0 || gradient.dims[0] == 0 ? 1 : std::max<std::int64_t>(1, gradient.elements() / gradient.dims[0]);
  p.faults = launcher.faults();
  return p;
}

}  // namespace quern::cuda
