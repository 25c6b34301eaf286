// softmax and its gradient; logsumexp, max, argmax along rows.
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

void emit_backward(const Call& call, Launcher& launcher) {
  const Tensor& dx = call.output(0);
  SoftmaxBackwardParams p{};
  p.rows = walk_rows(dx, {{call.input(0), p.y}, {call.input(1), p.dy}, {dx, p.dx}});
  p.n = dx.last();
  p.scale = static_cast<float>(call.real(QUERN_KEY_SCALE));
  launcher.launch(kernels::softmax_backward, {p.rows.count, 1, 1}, 256, p);
}

void emit_reduce(const Call& call, Launcher& launcher) {
  const Tensor& x = call.input(0);
  Tensor y = call.output(0);  // as rows of one element
  y.dims[y.rank] = 1;
  y.strides[y.rank++] = 0;
  RowReduceParams p{};
  p.rows = walk_rows(x, {{x, p.x}, {y, p.y}});
  p.n = x.last();
  const auto& kernel = call.op == QUERN_OP_ARGMAX ? kernels::argmax : call.op == QUERN_OP_MAX ? kernels::max_rows : kernels::logsumexp;
  launcher.launch(kernel, {p.rows.count, 1, 1}, p.n <= 64 ? 32 : p.n <= 4096 ? 256 : 1024, p);
}

constexpr Op table[] = {{QUERN_OP_SOFTMAX, "softmax.cuda", refuse_softmax, emit_softmax},
                        {QUERN_OP_SOFTMAX_BACKWARD, "softmax_backward.cuda", nullptr, emit_backward},
                        {QUERN_OP_ARGMAX, "argmax.cuda", nullptr, emit_reduce},
                        {QUERN_OP_MAX, "max.cuda", nullptr, emit_reduce},
                        {QUERN_OP_LOGSUMEXP, "logsumexp.cuda", nullptr, emit_reduce}};

}  // namespace

const std::span<const Op> softmax_ops = table;

}  // namespace quern::cuda
