// A tensor of experts as kernels of gradients see it.
#pragma once

#include "../op.hpp"

#include <algorithm>

namespace quern::vulkan {

inline View expert_view(const Tensor& t) {
  View v{};
  v.data = t.data;
  v.dtype = static_cast<int>(t.dtype);
  std::copy_n(t.strides, 3, v.stride);
  return v;
}

}  // namespace quern::vulkan
