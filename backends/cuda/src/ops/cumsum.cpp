// cumsum along the last dimension.
#include "../kernels/cumsum.hpp"

#include "strided.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_cumsum(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), &y = call.output(0);
  CumsumParams p{};
  p.rows = walk_rows(y, {{x, p.x}, {y, p.y}});
  p.n = y.last();
  launcher.launch(kernels::cumsum, {p.rows.count, 1, 1}, 256, p);
}

}  // namespace

const Op cumsum_op{QUERN_OP_CUMSUM, "cumsum.cuda", nullptr, emit_cumsum};

}  // namespace quern::cuda
