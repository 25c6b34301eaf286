// What cross_entropy and its gradient share.
#pragma once

#include "../kernels/loss.hpp"
#include "strided.hpp"

namespace quern::cuda {

inline CrossEntropyParams cross_entropy_params(const Call& call, const Tensor& loss, const Tensor& lse, const Tensor& dloss,
                                               const Tensor& dlogits, Launcher& launcher) {
  const Tensor& logits = call.input(0);
  const auto column = [](const Tensor& t) {  // as rows of one element
    Tensor rows = t;
    if (t.present()) {
      rows.dims[1] = 1;
      rows.strides[1] = 0;
      rows.rank = 2;
    }
    return rows;
  };
  CrossEntropyParams p{};
  p.rows = walk_rows(logits, {{logits, p.logits},
                              {column(call.input(1)), p.label},
                              {column(loss), p.loss},
                              {column(lse), p.lse},
                              {column(dloss), p.dloss},
                              {dlogits, p.dlogits}});
  p.n = logits.dims[1];
  p.ignore = call.integer(QUERN_KEY_IGNORE);
  p.smoothing = static_cast<float>(call.real(QUERN_KEY_SMOOTHING));
  p.z_loss = static_cast<float>(call.real(QUERN_KEY_Z_LOSS));
  p.faults = launcher.faults();
  return p;
}

}  // namespace quern::cuda
