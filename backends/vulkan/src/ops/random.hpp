// Numbers of one seed, step and salt, as random_uniform and dropout draw them.
#pragma once

#include "../views.hpp"

namespace quern::vulkan {

/// `seed`: which input it is; the step is behind it. x: of dropout, whose p is `probability`; absent else.
inline void launch_random(const Call& call, const Tensor& x, const Tensor& y, std::size_t seed, double probability, Launcher& launcher) {
  std::uint64_t first = 0;
  for_each_part(y, {&x, &y}, [&](const Shape& shape, const View* v) {
    const RandomParams p{shape,
                         v[0],
                         v[1],
                         call.input(seed).data,
                         call.input(seed + 1).data,
                         first,
                         static_cast<uint>(call.integer(QUERN_KEY_SALT)),
                         static_cast<float>(probability)};
    launcher.launch("random", launcher.item_threads(), launcher.spread(shape.count), p, {x.present() ? 1 : 0});
    first += shape.count;
  });
}

}  // namespace quern::vulkan
