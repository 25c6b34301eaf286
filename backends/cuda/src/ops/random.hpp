// Numbers of one seed, step and salt, as random_uniform and dropout draw them.
#pragma once

#include "../kernels/random.hpp"
#include "strided.hpp"

namespace quern::cuda {

/// `x`: of dropout, whose p is `p`; absent else.
inline void launch_random(const KernelId<RandomParams>& kernel, const Call& call, const Tensor& x, const Tensor& seed, const Tensor& step,
                          float p, Launcher& launcher) {
  const Tensor& y = call.output(0);
  RandomParams r{};
  r.shape = walk_elements(y, {{x, r.x}, {y, r.y}});
  r.seed = seed.data;
  r.step = step.data;
  r.salt = static_cast<unsigned>(call.integer(QUERN_KEY_SALT));
  r.p = p;
  launcher.launch(kernel, launcher.spread((r.shape.count + 3) / 4), 256, r);
}

}  // namespace quern::cuda
