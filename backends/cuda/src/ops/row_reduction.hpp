// What argmax, max and logsumexp launch.
#pragma once

#include "../kernels/softmax.hpp"
#include "strided.hpp"

namespace quern::cuda {

inline void launch_row_reduction(const Call& call, const KernelId<RowReduceParams>& kernel, Launcher& launcher) {
  const Tensor& x = call.input(0);
  Tensor y = call.output(0);  // as rows of one element
  y.dims[y.rank] = 1;
  y.strides[y.rank++] = 0;
  RowReduceParams p{};
  p.rows = walk_rows(x, {{x, p.x}, {y, p.y}});
  p.n = x.last();
  launcher.launch(kernel, {p.rows.count, 1, 1}, p.n <= 64 ? 32 : p.n <= 4096 ? 256 : 1024, p);
}

}  // namespace quern::cuda
