// What glu and its gradient share.
#pragma once

#include "../views.hpp"

namespace quern::vulkan {

/// Without up, gate holds both factors one after the other in each row.
struct GluFactors {
  Tensor gate, up, dgate, dup;
};
GluFactors glu_factors(const Call& call, const Tensor& dgate, const Tensor& dup);
void launch_glu(const Call& call, const GluFactors& f, const Tensor& y, bool backward, Launcher& launcher);

}  // namespace quern::vulkan
