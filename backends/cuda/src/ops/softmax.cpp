// Rows of softmax(mask(softcap(scale x))), with sinks.
#include "../kernels/softmax.hpp"

#include "strided.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

std::string refuse_softmax(const Call& call) { return check_packed_f32(call.input(2)); }

void emit_softmax(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), &y = call.output(0);
  SoftmaxParams p{};
  p.rows = walk_rows(y, {{x, p.x}, {call.input(1), p.mask}, {y, p.y}});
  p.sinks = call.input(2).data;
  p.n = x.last();
  p.q = x.dim_from_end(1);
  p.heads = x.dim_from_end(2);
  p.scale = static_cast<float>(call.real(QUERN_KEY_SCALE));
  p.softcap = static_cast<float>(call.real(QUERN_KEY_SOFTCAP));
  p.max_bias = static_cast<float>(call.real(QUERN_KEY_MAX_BIAS));
  p.causal = call.integer(QUERN_KEY_CAUSAL) != 0;
  p.query_offset = call.integer(QUERN_KEY_QUERY_OFFSET);
  p.window = static_cast<int>(call.integer(QUERN_KEY_WINDOW));
  launcher.launch(kernels::softmax, {p.rows.count, 1, 1}, 256, p);
}

}  // namespace

const Op softmax_op{QUERN_OP_SOFTMAX, "softmax.cuda", refuse_softmax, emit_softmax};

}  // namespace quern::cuda
