// Columns of x, chosen by an index.
#include "rows.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_take(const Call& call, Launcher& launcher) {
  const IndexParams p = index_params(call.input(0), call.input(1), call.output(0), launcher);
  launcher.launch(kernels::take, launcher.spread(p.rows * p.count), 256, p);
}

}  // namespace

const Op take_op{QUERN_OP_TAKE, "take.cuda", nullptr, emit_take};

}  // namespace quern::cuda
