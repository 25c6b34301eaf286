// What moe_router and its gradient share.
#pragma once

#include "../kernels/moe.hpp"
#include "strided.hpp"

namespace quern::cuda {

inline std::string refuse_router(const Call& call) { return check_contiguous(call.input(1)); }

/// Without the walk over rows.
inline RouterParams router_params(const Call& call, Launcher& launcher) {
  const Tensor& logits = call.input(0);
  RouterParams p{};
  p.bias = call.input(1).data;
  p.experts = logits.dims[1];
  p.used = call.integer(QUERN_KEY_USED);
  p.sigmoid = call.integer(QUERN_KEY_KIND) == 1;
  p.renormalise = call.integer(QUERN_KEY_RENORMALISE) != 0;
  p.scale = static_cast<float>(call.real(QUERN_KEY_SCALE));
  p.faults = launcher.faults();
  return p;
}

}  // namespace quern::cuda
